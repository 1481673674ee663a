"""The page on which a person has a record forgotten, after typing that it is meant."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from orbit_django import retention
from orbit_django.admin import databases, shown
from orbit_django.admin.pages import trail
from orbit_django.exceptions import RecordInUseError
from orbit_django.logs import SteadyLogger
from orbit_django.models import OutboxMessage
from orbit_django.payloads import cut

logger = SteadyLogger(logging.getLogger(__name__))

PERMISSION = "orbit_django.forget_idempotencyrecord"
IN_USE = "a delivery of its key came between"


class ForgetPage:
    """Explains what forgetting a record risks, and has it done."""

    def __init__(self, pages: Any) -> None:
        self._pages = pages  # of the records, as Django's admin holds them
        self._site: admin.AdminSite = pages.admin_site

    def show(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for the words, and forget the record when they are typed."""
        if not (request.user.has_perm(PERMISSION) and self._pages.has_view_permission(request)):
            raise PermissionDenied
        record = self._pages.get_object(request, unquote(object_id))
        if record is None:
            return self._pages._get_obj_does_not_exist_redirect(request, self._pages.opts, object_id)  # type: ignore[no-any-return]  # Django's own page for this
        words = f"forget {record.pk}"
        if request.method != "POST":
            return self._page(request, record, words)
        if request.POST.get("words", "").strip() != words:
            return self._page(request, record, words, fault=f"Type exactly: {words}")
        return self._forget(request, record, words)

    def _forget(self, request: HttpRequest, record: Any, words: str) -> HttpResponse:
        name, using = str(record), record._state.db
        try:
            retention.forget(using, record.pk)
        except (RecordInUseError, IntegrityError) as error:
            why = str(error) if isinstance(error, RecordInUseError) else IN_USE
            return self._page(request, record, words, fault=f"Nothing was changed: {why}.")
        self._pages.record_decision(request, [record], "Forgotten: the next delivery runs the handler.")
        logger.warning("a record was forgotten", extra={"record": record.pk, "user": request.user.pk})
        self._pages.message_user(
            request, f"{name} is forgotten. The next delivery of its key runs the handler.", messages.SUCCESS
        )
        return HttpResponseRedirect(databases.list_of(self._site, record, using))

    def _page(self, request: HttpRequest, record: Any, words: str, fault: str = "") -> HttpResponse:
        using = record._state.db
        unanswered = OutboxMessage.objects.using(using).undelivered().filter(record=record.pk)
        context = {
            **self._site.each_context(request),
            "title": "Forget a record",
            "opts": self._pages.opts,
            **trail(
                self._site,
                self._pages.opts,
                (None, databases.list_of(self._site, record, using)),
                (record.idempotency_key, databases.address_of(self._site, record)),
                ("Forget", ""),
            ),
            "record": record,
            "task": shown.named(record.task_name, record.contract_version),
            "key": cut(record.idempotency_key, 500),
            "state": shown.label(record.status),
            "words": words,
            "fault": fault,
            "unanswered": unanswered[:100].count(),
            "open_effects": record.effects.using(using).open()[:100].count(),
            "effects": record.effects.using(using).exclude(status="not_happened")[:100].count(),
            "address": databases.address_of(self._site, record),
        }
        request.current_app = self._site.name
        return TemplateResponse(request, "admin/orbit_django/forget.html", context)
