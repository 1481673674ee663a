"""What becomes of a copy of this process that a function made with ``os.fork`` and that comes back out of it.

It has one thread, no session, and shares the connections of its parent. It must never go on as a worker: it would
commit and report what its parent does, over the same connection.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_process() -> Iterator[None]:
    """Let nobody out of the block but the process that went into it.

    A copy ends here with an exit code, as a program would: 0 when it got to the end of the block, that of a SystemExit,
    1 with a traceback on stderr for any other exception.
    """
    pid = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() != pid:
            _end(error)
        raise
    if os.getpid() != pid:
        _end(None)


def _end(error: BaseException | None) -> None:
    """End the copy without anything that Python or Django would do at an orderly end: it is not the copy's to do."""
    code: object = 0
    try:
        if isinstance(error, SystemExit):
            code = error.code
        elif error is not None:
            code = 1
            traceback.print_exception(error)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else int(code is not None))
