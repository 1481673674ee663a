"""Sending again what has no answer yet: asked for in a list, confirmed on a page, done by the owner of the table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html

from orbit_django.admin import databases, shown
from orbit_django.admin.lists import MOST_LISTED
from orbit_django.admin.pages import LedgerAdmin, trail
from orbit_django.logs import SteadyLogger
from orbit_django.payloads import counted

logger = SteadyLogger(logging.getLogger(__name__))
MOST_SHOWN = 10  # rows that a confirmation names


@dataclass(frozen=True, slots=True)
class Request:
    """What can be asked for, and who does it."""

    action: str
    permission: str
    title: str
    statuses: tuple[str, ...]
    what: str  # one of the rows that it is about
    consequence: str
    act: Callable[[str, Collection[int]], int]  # alias and keys; returns how many were changed


class SendAgainAdmin(LedgerAdmin):
    """Pages of a table whose rows are sent until they are answered."""

    requests: tuple[Request, ...] = ()

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row with what its user may ask for."""
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            fitting = [wanted for wanted in self.requests if row.status in wanted.statuses]
            row.offered = [wanted for wanted in fitting if request.user.has_perm(wanted.permission)]
        return row

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what a page shows: the ways to send again only where there are any."""
        ways = (("Send again", {"fields": ("sending_again",)}),)
        return (*self.fieldsets, *ways) if obj is not None and obj.offered else self.fieldsets  # type: ignore[misc]

    def carry_out(self, request: HttpRequest, rows: QuerySet[Any], wanted: Request) -> HttpResponse | None:
        """Ask whether it is meant, and when that is said, do it."""
        rows = rows.filter(status__in=wanted.statuses, settled_at__isnull=True).order_by("settled_at", "pk")
        keys = list(rows.values_list("pk", flat=True)[:MOST_LISTED])
        if not keys:
            self.message_user(request, f"None of the chosen rows is one of the {wanted.what}s.", messages.WARNING)
            return None
        if "post" not in request.POST:
            return self._question(request, rows, keys, wanted)
        count = wanted.act(rows.db, keys)
        self.record_decision(request, rows.model.objects.using(rows.db).filter(pk__in=keys[:100]), f"{wanted.title}.")
        extra = {"action": wanted.action, "count": count, "user": request.user.pk}
        logger.info("a person had rows sent again", extra=extra)
        kept = len(keys) - count
        text = f"{count:,} of the {wanted.what}s will be sent by a worker or by orbit_outbox flush."
        text += f" Left alone, since being sent at this moment or answered: {kept:,}." if kept else ""
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)
        return None

    def _question(self, request: HttpRequest, rows: QuerySet[Any], keys: list[int], wanted: Request) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": wanted.title,
            "opts": self.opts,
            **trail(self.admin_site, self.opts, (None, request.get_full_path()), (wanted.title, "")),
            "wanted": wanted,
            "about": counted(len(keys), wanted.what),
            "is_most": len(keys) == MOST_LISTED,
            "rows": [(self.link(row, self.state(row)), self.told(row)) for row in self._first(rows, keys)],
            "more": max(len(keys) - MOST_SHOWN, 0),
            "chosen": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "checkbox": ACTION_CHECKBOX_NAME,
            "is_across": request.POST.get("select_across", "0") == "1",
            "address": request.get_full_path(),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/orbit_django/send_again.html", context)

    def _first(self, rows: QuerySet[Any], keys: list[int]) -> QuerySet[Any]:
        """Return the rows to name, found by their keys: what chose them may join and sort very many."""
        named = self.model._default_manager.using(rows.db).filter(pk__in=keys[:MOST_SHOWN]).order_by("pk")
        return self.narrowed(named)

    def state(self, row: Any) -> str:
        """Show where the row stands."""
        raise NotImplementedError

    def told(self, row: Any) -> str:
        """Return what a confirmation says of a row."""
        raise NotImplementedError

    @admin.display(description="no answer yet")
    def sending_again(self, row: Any) -> str:
        """Lead to the confirmations of what can be asked for."""
        address = databases.list_of(self.admin_site, row, row._state.db)
        html = format_html('<input type="hidden" name="{}" value="{}">', ACTION_CHECKBOX_NAME, row.pk)
        for wanted in row.offered:
            text = '{}<button type="submit" style="{}" formaction="{}" name="action" value="{}">{}…</button> '
            html = format_html(text, html, shown.BUTTON, address, wanted.action, wanted.title)
        return html
