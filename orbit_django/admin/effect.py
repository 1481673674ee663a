"""Effects in the admin: what was called, and the incidents that a person settles."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from orbit_django import effects
from orbit_django.admin import databases, shown
from orbit_django.admin.lists import WordFilter, beginning
from orbit_django.admin.pages import LedgerAdmin, records_of, trail
from orbit_django.logs import SteadyLogger
from orbit_django.models import Effect
from orbit_django.payloads import cut

logger = SteadyLogger(logging.getLogger(__name__))

OPEN = "open"
HAPPENED = "happened"
Status = Effect.Status


class EffectStatusFilter(WordFilter):
    """By status; uncertain ones are the incidents, open ones those that are begun or uncertain."""

    title = "status"
    parameter_name = "status__exact"
    words = (Status.UNCERTAIN, OPEN, Status.STARTED, Status.FINISHED, Status.NOT_HAPPENED)
    orders: ClassVar = dict.fromkeys(map(str, words), ("-pk",))  # the status has an index

    def kept(self, word: str) -> Q:
        """Return what a row must be."""
        return Q(status__in=[Status.STARTED, Status.UNCERTAIN]) if word == OPEN else Q(status=word)


class SettleForm(forms.Form):
    """What a person says became of an effect."""

    outcome = forms.ChoiceField(
        label="What became of it",
        widget=forms.RadioSelect,
        choices=[(HAPPENED, "It happened, with this result"), (Status.NOT_HAPPENED, "It did not happen")],
    )
    result = forms.CharField(
        label="Result",
        required=False,
        widget=forms.Textarea(attrs={"rows": 8, "cols": 80, "spellcheck": "false"}),
        help_text="What the call would have returned, as JSON; null for nothing.",
    )

    def clean(self) -> dict[str, Any]:
        """Check that a result is given, as JSON, when there is one, and only then."""
        said = super().clean() or {}
        text = said.get("result", "")
        if said.get("outcome") == HAPPENED:
            try:
                said["result"] = effects.read_result(text)
            except ValueError as error:
                self.add_error("result", f"This is no JSON value: {error}. A text stands in double quotes.")
        elif text:
            self.add_error("result", "What did not happen has no result; leave this empty.")
        return said


@admin.register(Effect)
class EffectAdmin(LedgerAdmin):
    """Effects, newest first; an open one can be settled."""

    list_display = ("state", "effect", "task", "key", "execution", "age", "trouble", "settled_by")
    list_filter = (EffectStatusFilter,)
    joined = ("record",)
    fieldsets = (
        (None, {"fields": ("state", "name", "its_key", "task", "its_record", "whole_execution")}),
        ("When", {"fields": ("started_at", "finished_at")}),
        ("What became of it", {"fields": ("shown_result", "shown_error", "settled_by")}),
    )
    readonly_fields = (
        "state", "task", "its_record", "whole_execution", "its_key", "shown_result", "shown_error", "settling",
    )  # fmt: skip

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with the columns of the list, the boundless ones cut by the database."""
        narrow: QuerySet[Any] = rows.only("status", "name", "settled_by").annotate(
            execution_id=F("record__execution_id"),
            created_at=F("started_at"),
            head_task=Left("record__task_name", 200),
            head_version=Left("record__contract_version", 50),
            head_key=Left("record__idempotency_key", 200),
            head_error=Left("error", 200),
        )
        return narrow

    def found(self, term: str, using: str) -> Q:
        """Return how to find an execution or a key."""
        return beginning("record__execution_id", term, using) | Q(record_id__in=records_of(term, using))

    def execution_id_of(self, row: Any) -> str:
        """Return the execution that an effect belongs to."""
        return str(row.record.execution_id)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the effect with the tokens that its texts must not show."""
        effect = super().get_object(request, object_id, from_field)
        if effect is not None:
            effect.tokens = shown.tokens_of(effect.record)
        return effect

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what a page shows: the way to settle only where there is one."""
        if obj is None or not (obj.is_open or effects.is_correctable(obj)) or not self._may_settle(request):
            return self.fieldsets
        return (*self.fieldsets, ("Settle" if obj.is_open else "Correct", {"fields": ("settling",)}))

    def get_urls(self) -> list[URLPattern]:
        """Add the page that settles."""
        view = self.admin_site.admin_view(self.settle_view)
        return [path("<path:object_id>/settle/", view, name="orbit_django_effect_settle"), *super().get_urls()]

    def settle_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask what became of an effect, ask again, and file it."""
        if not self._may_settle(request):
            raise PermissionDenied
        effect = self.get_object(request, unquote(object_id))
        if effect is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined,no-any-return]  # Django's own page for this
        if not effect.is_open and not effects.is_correctable(effect):
            self.message_user(request, "This effect is not open any more.", messages.WARNING)
            return HttpResponseRedirect(databases.address_of(self.admin_site, effect))
        form = SettleForm(request.POST if request.method == "POST" else None)
        if not form.is_valid():
            return self._page(request, effect, form=form)
        if "confirmed" not in request.POST:
            return self._page(request, effect, said=form.cleaned_data)
        self._settle(request, effect, form.cleaned_data)
        return HttpResponseRedirect(databases.address_of(self.admin_site, effect))

    def _settle(self, request: HttpRequest, effect: Any, said: dict[str, Any]) -> None:
        has_happened = said["outcome"] == HAPPENED
        try:
            name = request.user.get_username()
            sequel = effects.settle(effect, result=said["result"] if has_happened else None, settled_by=name)
        except ValueError as error:
            self.message_user(request, f"Nothing was changed: {error}.", messages.ERROR)
            return
        told = "it happened" if has_happened else "it did not happen"
        word = "Settled" if effect.is_open else f"Corrected, {effect.settled_by} had settled it"
        self.record_decision(request, [effect], f"{word}: {told}.")
        logger.info("an effect was settled", extra={"effect": effect.pk, "user": request.user.pk, "said": told})
        self.message_user(request, f"{word}: {told}. {sequel}", messages.SUCCESS)

    def _page(self, request: HttpRequest, effect: Any, **context: Any) -> HttpResponse:
        said: dict[str, Any] = context.get("said") or {}
        address = databases.address_of(self.admin_site, effect)
        every = databases.list_of(self.admin_site, effect, effect._state.db)
        context |= {
            **self.admin_site.each_context(request),
            **trail(self.admin_site, self.opts, (None, every), (effect.name, address), ("Settle", "")),
            "title": "Settle an effect",
            "opts": self.opts,
            "effect": effect,
            "key": cut(effect.record.idempotency_key, 500),
            "task": self.task(effect),
            "effect_key": effects.key_of(effect),
            "shape": "" if shown.is_hidden(effect.record.task_name) else effects.earlier_shape(effect),
            "error": self.shown_error(effect),
            "has_happened": said.get("outcome") == HAPPENED,
            "address": address,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/orbit_django/effect/settle.html", context)

    def _may_settle(self, request: HttpRequest) -> bool:
        """Return whether the user may settle: a permission of its own."""
        return request.user.has_perm("orbit_django.settle_effect")

    @admin.display(description="status")
    def state(self, effect: Any) -> str:
        """Show where the effect stands."""
        return shown.label(effect.status)

    @admin.display(description="effect")
    def effect(self, effect: Any) -> str:
        """Show the name that the handler gave it."""
        return shown.cell(effect.name, 24)

    @admin.display(description="task")
    def task(self, effect: Any) -> str:
        """Show name and version of the task."""
        if hasattr(effect, "head_task"):
            return shown.named(effect.head_task, effect.head_version)
        return shown.named(effect.record.task_name, effect.record.contract_version, 255)

    @admin.display(description="record")
    def its_record(self, effect: Any) -> str:
        """Lead to the record of its task."""
        return self.link(effect.record, cut(str(effect.record), 120))

    @admin.display(description="ctx.effect_key")
    def its_key(self, effect: Any) -> str:
        """Show what the handler may have handed over, by which the other side knows the call."""
        return effects.key_of(effect) or "-"

    @admin.display(description="execution")
    def whole_execution(self, effect: Any) -> str:
        """Lead to the execution."""
        return self.way_to(effect.record.execution_id, effect, 255)

    @admin.display(description="key")
    def key(self, effect: Any) -> str:
        """Show the beginning of the key."""
        return shown.cell(effect.head_key)

    @admin.display(description="error")
    def trouble(self, effect: Any) -> str:
        """Show the beginning of why nobody knows."""
        return shown.sentence(
            shown.HIDDEN if self._is_hidden(effect.head_error, effect.head_task) else effect.head_error
        )

    @admin.display(description="result")
    def shown_result(self, effect: Any) -> str:
        """Show what the call brought."""
        if self._is_hidden(effect.result, effect.record.task_name):
            return shown.HIDDEN
        return shown.json_block(effect.result, effect.tokens)

    @admin.display(description="error")
    def shown_error(self, effect: Any) -> str:
        """Show why nobody knows what became of it."""
        if self._is_hidden(effect.error, effect.record.task_name):
            return shown.HIDDEN
        return shown.block(shown.masked(effect.error, effect.tokens)) if effect.error else "-"

    @admin.display(description="what is known")
    def settling(self, effect: Any) -> str:
        """Lead to the page that settles it."""
        told = "Say whether it happened" if effect.is_open else "Correct what was said"
        return shown.button(told, databases.address_of(self.admin_site, effect, "settle"))

    def _is_hidden(self, text: str | None, task_name: str) -> bool:
        return bool(text) and shown.is_hidden(task_name)
