"""Many settled rows, copied from one task that the product has done, so that they are what it writes itself."""

from __future__ import annotations

from benchmarks import lab
from benchmarks.cases import Case, Shape, Stage
from benchmarks.databases import Database
from benchmarks.processes import wait_for

RECORD, MESSAGE = "orbit_django_idempotencyrecord", "orbit_django_outboxmessage"
FIRST = 1_000_000_000  # keys of copies begin here
NUMBERS = {
    "postgres": "(SELECT n FROM generate_series(1, {count}) AS n) AS numbers",
    "mariadb": "(SELECT seq AS n FROM seq_1_to_{count}) AS numbers",
    "sqlite": "(WITH RECURSIVE one(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < {count})"
    " SELECT n FROM one) AS numbers",
}
HASHES = {
    "postgres": "md5('{salt}' || n) || md5(n || '{salt}')",
    "mariadb": "SHA2(CONCAT('{salt}', n), 256)",
    "sqlite": "'{salt}' || n",
}


def fill(case: Case, stage: Stage, count: int) -> None:
    """Have the product do one task and copy its rows until there are so many."""
    database = stage.database
    assert database is not None
    stage.runtime.tell("begin", limit=1)
    with lab.worker(case, stage, Shape(1, 1)):
        lab.finish(stage.runtime, 1)
        wait_for(lambda: database.count(MESSAGE, "settled_at IS NULL") == 0, 30, "the report is settled")
    record, message = (database.value(f"SELECT max(id) FROM {table}") for table in (RECORD, MESSAGE))  # noqa: S608
    key = f"{FIRST} + n"
    _copy(database, RECORD, record, count, {"id": key, "key_hash": _hash(database, "r")})
    _copy(database, MESSAGE, message, count, {"id": key, "record_id": key, "token_hash": _hash(database, "m")})
    for table in (RECORD, MESSAGE):
        database.run(f"VACUUM ANALYZE {table}" if database.kind == "postgres" else "SELECT 1")
    print(f"  {case.name}: {count:,} settled rows are there", flush=True)


def _hash(database: Database, salt: str) -> str:
    return HASHES[database.kind].format(salt=salt)


def _copy(database: Database, table: str, key: int, count: int, changed: dict[str, str]) -> None:
    """Copy one row so many times, with other values in some of its columns."""
    quote = database.connection.ops.quote_name
    with database.connection.cursor() as cursor:
        names = [column.name for column in database.connection.introspection.get_table_description(cursor, table)]
    columns = ", ".join(map(quote, names))
    values = ", ".join(changed.get(name, f"one.{quote(name)}") for name in names)
    numbers = NUMBERS[database.kind].format(count=count)
    database.run(f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table} AS one, {numbers} WHERE one.id = {key}")  # noqa: S608
