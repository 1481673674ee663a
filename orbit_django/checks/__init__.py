"""System checks ``orbit_django.E001`` and following, and the stricter ones that a worker makes before it starts."""

from __future__ import annotations

from django.core.checks import Tags
from django.core.checks import register as make_known

from orbit_django.checks.databases import check_pools, check_routers, check_tables
from orbit_django.checks.migrations import (
    how_to_migrate,
    migrations_fault,
    missing_migrations,
    project_lacks,
    unmigrated_changes,
)
from orbit_django.checks.preflight import preflight
from orbit_django.checks.project import (
    check_contracts,
    check_credential,
    check_handlers,
    check_keys,
    check_name,
    check_settings,
    check_starts,
    differences,
    handler_faults,
)

__all__ = [
    "TAG",
    "check_contracts",
    "check_credential",
    "check_handlers",
    "check_keys",
    "check_name",
    "check_pools",
    "check_routers",
    "check_settings",
    "check_starts",
    "check_tables",
    "differences",
    "handler_faults",
    "how_to_migrate",
    "migrations_fault",
    "missing_migrations",
    "preflight",
    "project_lacks",
    "register",
    "unmigrated_changes",
]

TAG = "orbit_django"


def register() -> None:
    """Make the checks known to Django."""
    for check in (
        check_name,
        check_credential,
        check_settings,
        check_keys,
        check_handlers,
        check_contracts,
        check_routers,
        check_pools,
    ):
        make_known(check, TAG)
    make_known(check_starts, TAG, deploy=True)
    make_known(check_tables, Tags.database)
