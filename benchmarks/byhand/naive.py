"""The naive worker: `requests`, three rows by `create()`, and the report's row deleted when it was answered."""

from __future__ import annotations

import json
from collections.abc import Callable

import django
from django.db import transaction
from django.utils import timezone

from benchmarks.byhand.bare import Client

django.setup()

from benchmarks.work.handler import work  # noqa: E402  (needs the app registry)
from benchmarks.work.models import Receipt, Report  # noqa: E402  (as above)


class Worker:
    """Polls, runs the handler in a transaction with its bookkeeping, reports, forgets."""

    def __init__(self, url: str) -> None:
        self._url = url

    def loop(self) -> Callable[[], None]:
        """Return the step of one thread."""
        client = Client(self._url)

        def step() -> None:
            assignment = client.poll()
            if not assignment:
                return
            with transaction.atomic():
                output = work(assignment["input"])
                receipt = Receipt.objects.create(key=assignment["idempotency_key"], output=json.dumps(output))
                report = Report.objects.create(receipt=receipt, token=assignment["token"], due_at=timezone.now())
            client.complete(assignment["token"], output)
            Report.objects.filter(pk=report.pk).delete()

        return step

    def close(self) -> None:
        """Leave nothing behind."""
