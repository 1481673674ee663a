"""How rows of our own become INSERT and UPDATE: what each table looks like is asked once for each connection."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import RawSQL

from orbit_django.models import IdempotencyRecord

COMMON = {"": "''", 0: "0", 1: "1"}  # values, and how they are written


class Column(NamedTuple):
    """One column of a table, as an INSERT needs it."""

    name: str  # quoted
    attname: str
    mark: str
    field: models.Field[Any, Any]


class Columns:
    """Rows and changes as names, placeholders and values, for one connection."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    def _columns(self, row: models.Model) -> tuple[list[str], list[str], list[Any]]:
        """Return column names, placeholders and values of an INSERT of a row.

        What is NULL is left out, since no column has another default. Raw expressions and the commonest values stand
        in the statement; a text that differs each time would have to be read by the driver anew.
        """
        names, marks, values = [], [], []
        kept = row.__dict__
        for name, attname, mark, field in self._layout(type(row)):
            value = kept[attname]
            if value is None:
                continue
            names.append(name)
            kind = type(value)
            if kind is str or kind is int:
                common = COMMON.get(value) if kind is str or not field.is_relation else None
                marks.append(common or mark)
                if common is None:
                    values.append(value)
            elif kind is RawSQL:
                marks.append(value.sql)
                values.extend(value.params)
            else:
                marks.append(mark)
                values.append(self._adapted(value, field))
        return names, marks, values

    def _adapted(self, value: Any, field: models.Field[Any, Any]) -> Any:
        """Return a value as the driver takes it."""
        return field.get_db_prep_save(value, self.connection)

    def _changes(self, record: IdempotencyRecord, changes: dict[str, Any]) -> tuple[list[str], list[Any]]:
        """Return the assignments of an UPDATE, and their values."""
        sets, values = [], []
        for column in self._layout(type(record)):
            if column.attname not in changes:
                continue
            value = changes[column.attname]
            sets.append(f"{column.name} = {'NULL' if value is None else '%s'}")
            if value is not None:
                values.append(self._adapted(value, column.field))
        return sets, values

    def _layout(self, model: type[models.Model]) -> list[Column]:
        """Return the columns of a table but for its key; looked up once for each database."""
        known: dict[type[models.Model], list[Column]] = self.connection.__dict__.setdefault("orbit_layouts", {})
        if model not in known:
            fields = [field for field in model._meta.concrete_fields if not field.primary_key]
            quote = self.connection.ops.quote_name
            known[model] = [Column(quote(str(each.column)), each.attname, self._mark(each), each) for each in fields]
        return known[model]

    def _mark(self, field: models.Field[Any, Any]) -> str:
        return "%s"
