"""The databases' side: can they be used, are the tables there, is there room for the connections, what waits."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone

from orbit_django import checks, outbox, placement, starts
from orbit_django.conf import connections_for
from orbit_django.dialects import dialect_of
from orbit_django.doctor.findings import Finding, note, ok, wrong
from orbit_django.exceptions import ConfigurationError, MigrationsError
from orbit_django.models import Effect, OutboxMessage, WorkflowStart
from orbit_django.payloads import counted

OLD_SECONDS = 60.0
LIMIT = 10_000  # rows are counted up to here, the latest answers looked through up to here


@dataclass(frozen=True)
class Load:
    """How many workers are planned, and whether they may start workflows."""

    concurrency: int
    processes: int = 1
    may_start: bool = True

    @property
    def connections(self) -> int:
        """The most connections that all of them have to one database alias."""
        return self.processes * connections_for(self.concurrency)


def look_at_database(using: str, load: Load) -> Iterator[Finding]:
    """Tell all that can be learned of one alias; when it does not answer, only that."""
    about = f"database {using}"
    try:
        yield from _look(about, using, load)
    except ConfigurationError as error:
        yield wrong(about, str(error), "use PostgreSQL, MariaDB or SQLite")
    except (DatabaseError, InterfaceError) as error:
        told = (str(error).strip() or repr(error)).splitlines()[0]
        yield wrong(about, f"cannot be used: {told}", "workers wait until it answers")
    finally:
        connections[using].close()


def _look(about: str, using: str, load: Load) -> Iterator[Finding]:
    dialect = dialect_of(using)
    if dialect.is_in_memory():
        yield wrong(about, "SQLite in memory: each thread would see its own", "give it a file")
        return
    traits = dialect.traits()
    if connections[using].get_database_version() < dialect.minimum:
        least = ".".join(map(str, dialect.minimum))
        yield wrong(about, "; ".join(traits), f"use version {least} or newer")
    else:
        yield ok(about, "; ".join(traits))
    for text, advice in dialect.table_faults():
        yield wrong(about, text, advice)
    kept_out = placement.kept_out(using)
    if kept_out:
        advice = f"let allow_migrate answer True for orbit_django in {using!r}, or name another one in DATABASE"
        yield wrong(about, f"DATABASE_ROUTERS keep {', '.join(kept_out)} out of it", advice)
        return
    if (yield from _look_at_migrations(about, using)):
        yield from _look_at_rows(about, using)
        yield from _look_at_starts(about, using, load)
    yield from look_at_pool(about, dialect.pool_size(), load)
    yield from _look_at_budget(about, dialect.max_connections(), load)


def _look_at_migrations(about: str, using: str) -> Generator[Finding, None, bool]:
    """Tell what is not applied; return whether this app's tables are as they should be."""
    try:
        missing, others = checks.missing_migrations(using), checks.project_lacks(using)
    except MigrationsError as error:
        yield wrong(about, error.text, error.advice)
        return False
    if missing:
        yield wrong(about, f"lacks {counted(missing, 'migration')} of orbit_django", checks.how_to_migrate(using))
    else:
        yield ok(about, "every migration of orbit_django is applied")
    if others:
        yield wrong(about, f"lacks {others}: handlers fail at what is not there", checks.how_to_migrate(using))
    return not missing


def look_at_pool(about: str, size: int | None, load: Load) -> Iterator[Finding]:
    """Tell of a pool for whose connections the threads of one process would wait."""
    wanted = connections_for(load.concurrency)
    if size is not None and size < wanted:
        loops = f"a process with {load.concurrency} poll loops"
        text = f"its pool holds {counted(size, 'connection')}, and {loops} takes up to {wanted}"
        yield wrong(about, text, f'"pool": {{"max_size": {wanted}}} in its OPTIONS, or no pool where workers run')


def _look_at_budget(about: str, limit: int | None, load: Load) -> Iterator[Finding]:
    if limit is None:
        return
    wanted = (
        f"{counted(load.processes, 'process')} with {counted(load.concurrency, 'poll loop')} take up to "
        f"{counted(load.connections, 'connection')}"
    )
    if load.connections > limit:
        yield wrong(
            about, f"{wanted}, the server allows {limit}", "lower CONCURRENCY or --processes, or raise the limit"
        )
    elif load.connections > limit / 2:
        yield note(about, f"{wanted} of {limit}", "see that enough are left for the web processes")
    else:
        yield ok(about, f"{wanted} of {limit}")


def _look_at_rows(about: str, using: str) -> Iterator[Finding]:
    depth = OutboxMessage.objects.using(using).depth()
    age = 0.0 if depth["oldest"] is None else (timezone.now() - depth["oldest"]).total_seconds()
    text = f"{counted(depth['pending'], 'message')} pending, the oldest for {age:.0f} s"
    if age > OLD_SECONDS:
        yield note(about, text, "see that a worker of that server runs; orbit_outbox flush sends what can be sent")
    else:
        yield ok(about, text if depth["pending"] else "no message is pending")
    if depth["blocked"]:
        advice = "read last_error in the admin, repair the credential, then orbit_outbox retry"
        yield wrong(about, f"{counted(depth['blocked'], 'message')} blocked", advice)
    yield from _look_at_refused(about, "message", *outbox.refused_count(using, LIMIT))
    uncertain = Effect.objects.using(using).uncertain()[:1000].count()
    if uncertain:
        yield wrong(
            about,
            f"{counted(uncertain, 'effect')} uncertain: nobody knows whether the call happened",
            "orbit_effects list, and settle",
        )


def _look_at_starts(about: str, using: str, load: Load) -> Iterator[Finding]:
    rows = WorkflowStart.objects.using(using)
    waiting, blocked = (found[:LIMIT].count() for found in (rows.pending(), rows.blocked()))
    text = f"{counted(waiting, 'workflow start')} pending"
    if waiting and not load.may_start:
        yield wrong(about, f"{text}, and TOKEN is not set", "set TOKEN, or ORBIT_TOKEN, where workers run")
    elif waiting:
        yield note(about, text, "see that a worker with TOKEN runs; orbit_outbox flush sends what can be sent")
    else:
        yield ok(about, "no start of a workflow is pending")
    if blocked:
        advice = "read last_error in the admin, repair TOKEN or SERVER, then orbit_outbox retry"
        yield wrong(about, f"{counted(blocked, 'workflow start')} blocked", advice)
    yield from _look_at_refused(about, "workflow start", *starts.refused_count(using, LIMIT))


def _look_at_refused(about: str, what: str, count: int, last: datetime | None) -> Iterator[Finding]:
    """Tell of what ended for good and not well; a note, since nothing sends it again."""
    if last is not None:
        when = f"{timezone.localtime(last, UTC):%Y-%m-%d %H:%M} UTC"
        advice = "the admin shows the runtime's words; repair what they name, and start the workflow again"
        yield note(about, f"{counted(count, what)} refused by the runtime for good, the last one at {when}", advice)
