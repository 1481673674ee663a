import io
import logging
import os
import subprocess
import sys

import pytest
from django.core.management.base import OutputWrapper

from orbit_django.conf import OrbitSettings
from orbit_django.management.shown import Progress, columns, level_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("line", ["orbit_doctor", "orbit_tasks --offline", "orbit_outbox status", "orbit_effects list"])
def test_a_reader_that_leaves_early_gets_no_traceback(
    child_environment: dict[str, str], line: str, buffered: bool
) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # before anything is written
    more = {"ORBIT_SERVER": "http://127.0.0.1:9"} | ({} if buffered else {"PYTHONUNBUFFERED": "1"})
    command = [sys.executable, "-m", "django", *line.split()]
    try:
        done = subprocess.run(
            command, check=False, env=child_environment | more, stdout=writing, stderr=subprocess.PIPE, timeout=50
        )
    finally:
        os.close(writing)
    assert (done.returncode, b"BrokenPipe" in done.stderr, b"Traceback" in done.stderr) == (1, False, False)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns(("id", "name"), [("1", "a"), ("200", "bb")]) == ["id   name", "1    a", "200  bb"]


def test_nothing_but_heads_is_a_table_too() -> None:
    assert columns(("id", "name"), []) == ["id  name"]


def test_paint_goes_over_a_cell_with_its_width_and_not_over_the_head() -> None:
    painted = columns(("id", "name"), [("1", "a"), ("20", "b")], {0: lambda cell: f"<{cell}>"})
    assert painted == ["id  name", "<1 >  a", "<20>  b"]


@pytest.mark.parametrize(
    ("stream", "is_plain", "shown"),
    [
        (Terminal(), False, "\r\x1b[K1 of 2\r\x1b[K"),
        (Terminal(), True, "\r\x1b[K1 of 2\r\x1b[K"),
        (io.StringIO(), False, ""),
        (io.StringIO(), True, "1 of 2\n"),
    ],
)
def test_progress_is_one_line_on_a_terminal(stream: io.StringIO, is_plain: bool, shown: str) -> None:
    progress = Progress(OutputWrapper(stream), is_plain=is_plain)
    progress.show("1 of 2")
    progress.show("")
    assert stream.getvalue() == shown


@pytest.mark.parametrize(("verbosity", "level"), [(0, "ERROR"), (1, "WARNING"), (2, "DEBUG"), (3, "DEBUG")])
def test_the_level_of_the_log_follows_verbosity(verbosity: int, level: str) -> None:
    assert level_of(verbosity, OrbitSettings(log_level="WARNING")) == level
    assert logging.getLevelNamesMapping()[level]
