"""The suite's settings for a worker that announces the recorded language."""

from tests.settings import *  # noqa: F403  (the same but for one key)

ORBIT = {"RUNTIME": "Ruby"}
