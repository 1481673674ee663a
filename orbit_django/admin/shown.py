"""Stored texts as people see them: without secrets, laid out, escaped and cut.

Whatever a handler or a runtime wrote may be huge, hostile or secret, so everything passes through here on its way
to a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.timesince import timesince

from orbit_django.models import OutboxMessage
from orbit_django.payloads import cut, storable
from orbit_django.protocol import Receipt
from orbit_django.redaction import MASK
from orbit_django.tasks import registry

SUPERSEDED = "superseded"
ERROR_CODE = re.compile(r'"error_code":\s*"([^"\\]{1,200})')
HIDDEN = "hidden: the task is declared sensitive"
BUTTON = (
    "display:inline-block;border:0;border-radius:4px;padding:.4em .9em;text-decoration:none;cursor:pointer;"
    "background:var(--button-bg,#417690);color:var(--button-fg,#fff)"
)  # as Django's own theme has it; other themes know no buttons in a field
LIMIT_LAID_OUT = 200_000  # a longer text is shown as it is, since laying it out would take seconds
LIMIT_SHOWN = 20_000
COLOURS = {
    "start": "#2b6cb0",
    "claimed": "#2b6cb0",
    "delivery": "#2b6cb0",
    "redelivery": "#b7791f",
    "effect": "#2b6cb0",
    "running": "#2b6cb0",
    "succeeded": "#2f855a",
    "failed": "#c53030",
    "pending": "#2b6cb0",
    "delivered": "#718096",  # that it arrived makes no success of a failure
    "superseded": "#718096",
    "refused": "#c53030",
    "blocked": "#b7791f",
    "started": "#2b6cb0",
    "finished": "#2f855a",
    "uncertain": "#c53030",
    "not_happened": "#718096",
}


def is_hidden(task_name: str) -> bool:
    """Return whether any version of the task is declared sensitive."""
    return registry.hides(task_name)


def hides_starts() -> bool:
    """Return whether inputs of workflows are hidden: they may be those of a sensitive task."""
    return any(task.is_sensitive for task in registry)


def standing(message: Any) -> str:
    """Return where a message stands; refused for a benign reason, it was superseded."""
    return SUPERSEDED if message.status == OutboxMessage.Status.REFUSED and _is_benign(message) else message.status


def reason_of(message: Any) -> str:
    """Return the runtime's words about a message; about a sensitive task they may quote its result."""
    text = message.head_reason if hasattr(message, "head_reason") else message.reason
    name = message.head_task if hasattr(message, "head_task") else message.record and message.record.task_name
    return HIDDEN if text and not _is_benign(message) and is_hidden(name or "") else text


def receipt_of(message: Any) -> str:
    """Return the runtime's receipt in one line, where it gives one: its status first, then the rest."""
    try:
        found = json.loads(message.receipt or "{}")
    except ValueError:
        return str(message.receipt)
    if not isinstance(found, dict) or not found:
        return ""
    status = str(found.pop("status", "?"))
    unavailable = ["its evidence is not available any more"] if found.pop("unavailable", False) else []
    return ", ".join([f"receipt {status}", *unavailable, *(f"{name} {value}" for name, value in found.items())])


def tokens_of(record: Any) -> list[str]:
    """Return the tokens that no text of a record may show."""
    return list(record.messages.using(record._state.db).order_by("pk").values_list("token", flat=True)[:100])


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text without the secrets, in plain form and as JSON writes them."""
    for secret in filter(None, secrets):
        for form in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], secret):
            text = text.replace(form, MASK)
    return text


def json_block(text: str | None, secrets: Iterable[str] = ()) -> str:
    """Return JSON text as a block of markup, laid out when it is not too long; a dash for nothing."""
    if not text:
        return "-"
    text = masked(_laid_out(text), secrets)
    note = f"\n[the first {LIMIT_SHOWN:,} of {len(text):,} characters]" if len(text) > LIMIT_SHOWN else ""
    return block(text[:LIMIT_SHOWN] + note)


def excerpt(text: str, secrets: Iterable[str], length: int) -> str:
    """Return the beginning of JSON text as a block, without secrets; what is loaded of it reaches further."""
    return block(cut(masked(_laid_out(text), secrets), length))


def block(text: str) -> str:
    """Return any text as an escaped block that keeps its lines and never widens the page."""
    style = "margin:0;max-height:32em;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere"
    return format_html('<pre style="{}">{}</pre>', style, storable(text))


def code_of(text: str | None) -> str:
    """Return the error code in the beginning of a failure's JSON text; a dash for none."""
    found = ERROR_CODE.search(text or "")
    return found[1] if found else "-"


def label(word: str) -> str:
    """Return a state with a dot in its colour."""
    colour = COLOURS.get(word, "inherit")
    text = word.replace("_", " ")
    return format_html('<span style="white-space:nowrap"><span style="color:{}">●</span> {}</span>', colour, text)


def shortened(text: str | None, length: int) -> str:
    """Return the first line of a text, cut for a column of a list; a dash for nothing."""
    line = " ".join((text or "").split())
    return cut(line, length) or "-"


def age(moment: datetime) -> str:
    """Return how long ago something was, in its largest unit."""
    return timesince(moment, depth=1)


def cell(text: str, length: int = 20) -> str:
    """Return a name as one unbroken line, its middle left out when it is long; the whole is in its title."""
    return format_html('<span style="white-space:nowrap" title="{}">{}</span>', cut(text, 200), _middle(text, length))


def sentence(text: str) -> str:
    """Return words for a column, which get the room to be read."""
    style = "display:inline-block;min-width:10em;overflow-wrap:anywhere"
    return format_html('<span style="{}">{}</span>', style, shortened(text, 90))


def button(text: str, address: str) -> str:
    """Return the link to a page where something is decided."""
    return format_html('<a class="button" style="{}" href="{}">{}</a>', BUTTON, address, text)


def named(name: str, version: str, length: int = 28) -> str:
    """Return name and version of a task, the version below the name where there is little room."""
    return format_html('<span title="{} {}">{} {}</span>', cut(name, 200), version, _middle(name, length), version)


def time_of(milliseconds: int | None) -> str:
    """Return a time that the database's clock told as the project shows its times; a dash for none."""
    if milliseconds is None:
        return "-"
    moment = datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    zone = timezone.get_current_timezone() if settings.USE_TZ else timezone.get_default_timezone()
    return date_format(moment.astimezone(zone), "DATETIME_FORMAT")


def _middle(text: str, length: int) -> str:
    tail = length // 2
    return text if len(text) <= length else f"{text[: length - tail - 1]}…{text[-tail:]}"


def _is_benign(message: Any) -> bool:
    return Receipt(False, message.head_reason if hasattr(message, "head_reason") else message.reason).is_benign


def _laid_out(text: str) -> str:
    if len(text) > LIMIT_LAID_OUT:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):  # not JSON, nested too deeply, or a number with thousands of digits
        return text
