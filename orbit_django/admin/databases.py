"""Which database a page is about: the addresses of its rows name every one but the project's own for tasks."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from orbit_django import conf
from orbit_django.exceptions import ConfigurationError
from orbit_django.models import IdempotencyRecord
from orbit_django.tasks import registry

PARAMETER = "db"


def home() -> str:
    """Return the alias of tasks that name none."""
    try:
        using = conf.load().database
    except ConfigurationError:  # the checks tell about it; the tables can be looked at all the same
        return "default"
    return using if using in settings.DATABASES else "default"


def in_use() -> tuple[str, ...]:
    """Return every alias that tasks keep rows in, home first."""
    first = home()
    others = {task.using for task in registry if task.using and task.using in settings.DATABASES}
    return first, *sorted(others - {first})


def chosen(request: HttpRequest) -> str:
    """Return the alias that the address asks for."""
    wanted = request.GET.get(PARAMETER, "")
    return wanted if wanted in in_use() else home()


def find(rows: QuerySet[Any], name: str) -> Any:
    """Return the row that a name in an address means; None when there is none."""
    using, _, key = name.rpartition(":")
    using = using or home()
    if using not in in_use() or not key.isascii() or not key.isdecimal() or len(key) > 18:
        return None
    return rows.using(using).filter(pk=int(key)).first()


def name_of(row: Any) -> str:
    """Return what names a row in an address."""
    using = row._state.db
    return str(row.pk) if using == home() else f"{using}:{row.pk}"


def address_of(site: admin.AdminSite, row: Any, page: str = "change") -> str:
    """Return the address of a row's page."""
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_{page}"
    return reverse(name, args=[name_of(row)], current_app=site.name)


def list_of(site: admin.AdminSite, model: Any, using: str, **query: str) -> str:
    """Return the address of a table's list."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist", current_app=site.name)
    return address + _query(using, query)


def execution_of(site: admin.AdminSite, execution_id: str, using: str) -> str:
    """Return the address of an execution's page."""
    name = f"admin:{IdempotencyRecord._meta.app_label}_execution"
    return reverse(name, current_app=site.name) + _query(using, {"id": execution_id})


def _query(using: str, query: dict[str, str]) -> str:
    found = query | ({} if using == home() else {PARAMETER: using})
    return f"?{urlencode(found)}" if found else ""


class DatabaseFilter(admin.SimpleListFilter):
    """By database, where the project's tasks keep their rows in more than one."""

    title = "database"
    parameter_name = PARAMETER

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the databases beside the one that is shown anyway."""
        return [(using, using) for using in in_use()[1:]]

    def choices(self, changelist: Any) -> Any:
        """Name the database that is shown when none is chosen."""
        first, *others = super().choices(changelist)
        yield {**first, "display": home()}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of the database that is chosen."""
        return queryset.using(chosen(request))
