"""The rows of the databases of a test, put back between runs that each need the same world."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.apps import apps
from django.db import connections, models, router, transaction

BATCH = 20  # rows of one INSERT; some databases bound its parameters

Table = tuple[str, type[models.Model]]  # alias and model
Rows = list[tuple[Any, ...]]


class Snapshot:
    """All rows of all models, read at once; only tables that have changed are written again."""

    def __init__(self, aliases: Iterable[str]) -> None:
        self._tables: dict[str, list[type[models.Model]]] = {alias: list(_models_in(alias)) for alias in aliases}
        self._rows: dict[Table, Rows] = {
            (alias, model): _rows(alias, model) for alias, found in self._tables.items() for model in found
        }

    def restore(self) -> None:
        """Make the tables what they were; no signals are sent."""
        for alias, found in self._tables.items():
            changed = [model for model in found if _rows(alias, model) != self._rows[alias, model]]
            if changed:
                with connections[alias].constraint_checks_disabled(), transaction.atomic(alias):
                    self._rewrite(alias, changed)

    def _rewrite(self, alias: str, changed: list[type[models.Model]]) -> None:
        for model in reversed(changed):
            model._base_manager.using(alias)._raw_delete(alias)
        for model in changed:
            fields = _fields(model)
            names = [field.attname for field in fields]
            made = [model(**dict(zip(names, row, strict=True))) for row in self._rows[alias, model]]
            for start in range(0, len(made), BATCH):
                model._base_manager._insert(made[start : start + BATCH], fields=fields, using=alias, raw=True)  # type: ignore[attr-defined]


def _models_in(alias: str) -> Iterator[type[models.Model]]:
    present = set(connections[alias].introspection.table_names())
    for model in apps.get_models(include_auto_created=True):
        is_table = model._meta.managed and not model._meta.proxy and model._meta.db_table in present
        if is_table and router.allow_migrate_model(alias, model):
            yield model


def _fields(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    return [field for field in model._meta.local_concrete_fields if not getattr(field, "generated", False)]


def _rows(alias: str, model: type[models.Model]) -> Rows:
    names = [field.attname for field in _fields(model)]
    return list(model._base_manager.using(alias).order_by("pk").values_list(*names))
