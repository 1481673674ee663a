"""What is tried in a project: `python -m tests.projects.stories check work admin`, with its settings in force.

Nothing here is known of the project but its handlers. It fails by an exception.
"""

import re
import sys
from html import unescape
from typing import Any
from urllib.parse import urljoin

import django
from django.core.management import call_command

SKIPPED = {"#", "&"}  # places within a page, and filters on top of filters
LINK = re.compile(r'<a[^>]* href="([^"]+)"')


def must(condition: object, *about: object) -> None:
    """Demand something, also where assertions are left out."""
    if not condition:
        raise AssertionError(*about)


def check() -> None:
    """Find no fault and no missing migration."""
    call_command("check", fail_level="WARNING", databases=["default"])
    call_command("makemigrations", check_changes=True, dry_run=True)


def migrate() -> None:
    """Make the tables, after which nothing is left to do."""
    call_command("migrate", verbosity=0, run_syncdb=True)
    call_command("migrate", check_unapplied=True, verbosity=0)
    call_command("check", fail_level="WARNING", databases=["default"])
    _begin_with_large_keys()


def _begin_with_large_keys() -> None:
    """Let keys begin where a language would write a separator between their digits."""
    from django.apps import apps
    from django.db import connection

    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for model in apps.get_app_config("orbit_django").get_models():
                sql = "INSERT INTO sqlite_sequence (name, seq) VALUES (%s, 1234567)"
                cursor.execute(sql, [model._meta.db_table])


def _rows(name: str) -> Any:
    """Return the rows of one of our tables, where the tasks keep them."""
    from django.apps import apps

    from orbit_django import conf

    return apps.get_model("orbit_django", name).objects.using(conf.load().database)


def _run(*, threads: int) -> dict[str, Any]:
    from orbit_django.client import Client
    from orbit_django.testing import run_until_idle, running_runtime

    with running_runtime() as runtime:
        client = Client()
        execution = client.start("Order", {"key": f"order-{threads}"})
        run_until_idle(runtime, threads=threads)
        client.close()
        return runtime.execution(execution)


def work() -> None:
    """Serve a workflow by hand and by a real worker with threads; each has its effects once."""
    from django.apps import apps

    for threads in (0, 2):
        seen = _run(threads=threads)
        must(seen["status"] == "COMPLETED", seen)
        must(seen["output"]["parcel"] == "parcel-1")
    must(apps.get_model("shop", "Order").objects.count() == 4)
    must(_rows("IdempotencyRecord").succeeded().count() == 6)
    must(_rows("OutboxMessage").filter(status="delivered").count() == 6)


def forget() -> None:
    """Keep the queries of a task at most, on the connections of all threads, however many tasks were served."""
    from django.db.backends.signals import connection_created

    from orbit_django.client import Client
    from orbit_django.testing import run_until_idle, running_runtime

    opened = []
    connection_created.connect(lambda connection, **_: opened.append(connection), weak=False)
    with running_runtime() as runtime:
        client = Client()
        for number in range(12):
            client.start("Order", {"key": f"debug-{number}"})
        run_until_idle(runtime, threads=2)
        client.close()
    counts = [len(connection.queries_log) for connection in opened]
    must(len(counts) > 2, counts)
    must(max(counts) < 40, counts)


def prune() -> None:
    """Remove what is settled, as if it were old."""
    call_command("orbit_outbox", "prune", "--days", "0")
    must(not _rows("IdempotencyRecord").exists())


def _browser() -> Any:
    from django.contrib.auth import get_user_model
    from django.test import Client

    client = Client()
    users = get_user_model()
    user = users.objects.filter(**{users.USERNAME_FIELD: "root"}).first()
    client.force_login(user or users.objects.create_superuser("root", password="root"))
    return client


def admin() -> None:
    """Follow every link of our pages, with a search on each list; the database is never asked to convert times."""
    from django.apps import apps
    from django.db import connection
    from django.test.utils import CaptureQueriesContext
    from django.urls import reverse

    client = _browser()
    names = [model._meta.model_name for model in apps.get_app_config("orbit_django").get_models()]
    lists = [reverse(f"admin:orbit_django_{name}_changelist") for name in names]
    root = reverse("admin:app_list", args=["orbit_django"])
    left, seen = [root, *(address + "?q=order-0" for address in lists)], set()
    with CaptureQueriesContext(connection) as asked:
        while left:
            address = left.pop()
            page = client.get(address)
            must(page.status_code == 200, (address, page.status_code))
            found = {urljoin(address, unescape(link)) for link in LINK.findall(page.content.decode())}
            ours = {link for link in found if link.startswith(root) and not SKIPPED & set(link)}
            new = ours - seen - set(left)
            seen.add(address)
            left += sorted(new)
    rows = sum(_rows(model.__name__).count() for model in apps.get_app_config("orbit_django").get_models())
    must(len(seen) > len(names) + rows, sorted(seen))
    must(not [query for query in asked.captured_queries if "CONVERT_TZ" in query["sql"]])


def settle() -> None:
    """Let a person settle an incident; the record says who."""
    from django.urls import reverse

    effects = _rows("Effect")
    effect = effects.filter(name="parcel").first()
    effects.filter(pk=effect.pk).update(status="uncertain", finished_at=None, result=None)
    address = reverse("admin:orbit_django_effect_settle", args=[effect.pk])
    page = _browser().post(address, {"outcome": "happened", "result": '"parcel-2"', "confirmed": "yes"}, follow=True)
    effect.refresh_from_db(using=effect._state.db)
    must((effect.status, effect.settled_by) == ("finished", "root"), page.content.decode())


STORIES = {story.__name__: story for story in (check, migrate, work, forget, prune, admin, settle)}


def main(names: list[str]) -> None:
    """Play the stories that are named."""
    django.setup()
    for name in names:
        STORIES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
