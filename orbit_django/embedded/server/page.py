"""A small page that shows executions, steps and workers. Everything that comes from outside is escaped.

A browser asks for the admin token by itself, as a password, and sends it as a header: it never stands in an address.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from orbit_django.embedded.answers import HTML, Answer

MOST_ROWS = 200
_MOST_TEXT = 300
_MOST_STEPS = 20
_REFRESH = '<meta http-equiv="refresh" content="5">'
_HEADERS = (
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
)
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">$refresh
<title>ORBIT development runtime</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem;
  color-scheme: light dark }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #8884; vertical-align: top }
td { overflow-wrap: anywhere; min-width: 4rem } th, span { white-space: nowrap } nav a { margin-right: 1rem }
section { overflow-x: auto }
.COMPLETED, .SUCCEEDED { color: #1a7f37 } .RUNNING, .IN_FLIGHT { color: #0969da }
.FAILED, .TIMED_OUT { color: #cf222e } .CANCELLED { color: #9a6700 }
</style></head><body>
<h1>ORBIT development runtime</h1>
<p>For development and tests, not for production.</p>
$content
</body></html>
""")
_WORKERS = ("worker", "runtime", "tasks", "sessions", "in flight")
_EXECUTIONS = ("execution", "workflow", "status", "steps", "input", "result")


def answer(html: str, status: int = 200) -> Answer:
    """Return the answer that holds a page."""
    return Answer(status, html.encode(errors="replace"), HTML, headers=_HEADERS)


def refusal(message: str) -> Answer:
    """Return the page for a visitor without the right credential; a browser then asks for one."""
    text = f"{escape(message)}. This page wants the admin token: as the password, with any name, or as a bearer token."
    html = _PAGE.substitute(content=f"<p>{text}</p>", refresh="")
    ask = ("www-authenticate", 'Basic realm="ORBIT development runtime", charset="UTF-8"')
    return Answer(401, html.encode(), HTML, version=None, headers=(*_HEADERS, ask))


def authorization(header: str | None) -> str | None:
    """Return the header with a password, as browsers send it, made into a bearer token."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return header
    try:
        _, _, password = base64.b64decode(encoded).decode("latin-1").partition(":")
    except (binascii.Error, ValueError):
        password = ""
    return f"Bearer {password}"


def overview(
    executions: Sequence[Mapping[str, Any]],
    workers: Iterable[Mapping[str, Any]],
    statuses: Mapping[str, int],
    status: str | None = None,
) -> str:
    """Return the page for what the views of the same names return; ``status`` is the one that was asked for."""
    known = sum(statuses.values()) if status is None else statuses.get(status, 0)
    title = "Executions" if len(executions) == known else f"The newest {len(executions)} of {known:,} executions"
    content = (
        _table("Workers", _WORKERS, map(_worker, workers))
        + _links(statuses)
        + _table(title, _EXECUTIONS, map(_execution, executions))
    )
    return _PAGE.substitute(content=content, refresh=_REFRESH)


def _links(statuses: Mapping[str, int]) -> str:
    links = [("/", f"all {sum(statuses.values()):,}")]
    links += [(f"/?status={status}", f"{status} {count:,}") for status, count in sorted(statuses.items())]
    return "<nav>" + "".join(f'<a href="{escape(url)}">{escape(text)}</a>' for url, text in links) + "</nav>\n"


def _worker(worker: Mapping[str, Any]) -> list[str]:
    tasks = ", ".join(f"{item['task_name']} {item['contract_version']}" for item in worker["contracts"])
    online = str(worker["sessions"]) if worker["online"] else "offline"
    return [_cell(text) for text in (worker["worker_id"], worker["runtime"], tasks, online, str(worker["in_flight"]))]


def _execution(execution: Mapping[str, Any]) -> list[str]:
    error = execution.get("error")
    result = f"{error['code']}: {error['message']}" if error else _json(execution.get("output"))
    return [
        _cell(execution["id"]),
        _cell(f"{execution['workflow']} {execution['version']}"),
        _status(execution["status"]),
        _steps(execution["steps"]),
        _cell(_json(execution["input"])),
        _cell(result),
    ]


def _steps(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each step; the elements of a fan-out share one, which counts them by status."""
    lines = [_step(step) for step in steps if "[" not in step["step"]]
    elements: dict[str, Counter[str]] = {}
    for step in steps:
        name, bracket, _ = step["step"].partition("[")
        if bracket:
            elements.setdefault(name, Counter())[step["status"]] += 1
    for name, counts in elements.items():
        counted = ", ".join(f"{count} {_status(status)}" for status, count in counts.items())
        lines.append(f"{_cell(name)}[…]: {counted}")
    more = [f"and {len(lines) - _MOST_STEPS:,} more"] if len(lines) > _MOST_STEPS else []
    return "<br>".join(lines[:_MOST_STEPS] + more)


def _step(step: Mapping[str, Any]) -> str:
    attempt = f" (attempt {step['attempt']})" if step["attempt"] > 1 else ""
    worker = f" at {_cell(step['worker_id'])}" if "worker_id" in step else ""
    return f"<span>{_cell(step['step'])}: {_status(step['status'])}{attempt}</span>{worker}"


def _status(text: str) -> str:
    return f'<span class="{escape(text)}">{escape(text)}</span>'


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells are HTML."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<h2>{escape(title)}</h2>\n<section>{table}</section>\n"


def _cell(text: str) -> str:
    return escape(text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…")
