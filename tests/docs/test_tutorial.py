"""The tutorial is followed from its first line to its last, in an empty folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit_django.admin.timeline import TAKEN_OVER
from orbit_django.management.commands.orbit_effects import COLUMNS
from orbit_django.management.shown import columns
from tests.docs.pages import Block, blocks, text_of
from tests.docs.playing import Reader, inside, is_all, is_among, ports

PAGE = "docs/tutorial.md"
ADMIN = """
from django.contrib.auth.models import User
from django.test import Client
from orbit_django.models import Effect, IdempotencyRecord
client = Client(SERVER_NAME="127.0.0.1")
client.force_login(User.objects.get(username="ada"))
effects = client.get("/admin/orbit_django/effect/")
page = client.get("/admin/orbit_django/idempotencyrecord/execution/?id=order-2").content.decode()
print(effects.status_code, Effect.objects.filter(status="finished").count(), Effect.objects.count())
print(*IdempotencyRecord.objects.filter(execution_id="order-2").order_by("pk").values_list("step_id", "generation"))
print("effect charge finished" in page, "this one took it over (claim 2)" in page)
"""

# The first payment is answered soon; the second is not before the worker is killed, however slow this machine is.
BANK_SECONDS = """
class Seconds:
    def __index__(self):
        return 2 if len((BASE_DIR / "bank.txt").read_text().splitlines()) == 1 else 600

BANK_SECONDS = Seconds()
"""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path, ports(7233, 8000) | {"BANK_SECONDS = 15": BANK_SECONDS})
    yield made
    made.close()


def all_of(page: str) -> list[Block]:
    return list(blocks(page))


@pytest.mark.timeout(240)
@pytest.mark.promise("E10")
def test_whoever_follows_the_tutorial_pays_once(reader: Reader) -> None:
    for block in all_of(PAGE):
        reader.follow(block)
    assert reader.terminals["runtime"].said().splitlines()[-1].startswith("the runtime has ended")
    assert inside(reader, ADMIN).splitlines() == ["200 2 2", "('charge', 2) ('pack', 1)", "True True"]

    without = (reader.folder / "orders" / "tasks_orbit.py").read_text(encoding="utf-8")
    whole = 'ctx.effect("charge", bank.charge, input["cents"], key, find=bank.find)'
    assert whole in without
    bare = without.replace(whole, 'bank.charge(input["cents"], key)')
    (reader.folder / "orders" / "tasks_orbit.py").write_text(bare, encoding="utf-8")
    assert "orders.charge: the effect was doubled when its process ended" in reader.run("pytest -q || true")


def test_what_the_timeline_says_of_the_second_worker_is_quoted() -> None:
    assert f"“{TAKEN_OVER.format(2)}”" in " ".join(text_of(PAGE).split())


def test_the_list_of_effects_is_shown_as_the_command_aligns_it() -> None:
    (shown,) = [block.text.splitlines() for block in all_of(PAGE) if block.text.startswith("id  ")]
    cells = [cell.replace("…", "0 minutes") for cell in shown[1].split()]
    assert [line.replace("0 minutes", "…        ") for line in columns(COLUMNS, [[*cells, ""]])] == shown


def test_what_is_shown_is_told_from_what_is_not() -> None:
    assert is_among("a … c\n1 passed in …\n", "before\na  b c\n1 passed in 2 s\n")
    assert not is_among("a\nb\n", "b\na\n")
    assert not is_among("a\n", "ab\n")
    assert is_all("a … c\n", "a  b c\n")
    assert not is_all("a\nb\n", "a\nb\nb\n")
    assert not is_all("a\n", "")
