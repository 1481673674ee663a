"""The suite's settings for worker processes whose times are short: `CRASH_SETTINGS` holds keys of `ORBIT` as JSON."""

import json
import os

from tests.settings import *  # noqa: F403  (the same but for one key)

ORBIT = json.loads(os.environ.get("CRASH_SETTINGS", "{}"))
