"""A small page that shows executions, steps and workers. Everything that comes from outside is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from string import Template
from typing import Any

_MOST_ROWS = 200
_MOST_TEXT = 300
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>ORBIT development runtime</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
  color-scheme: light dark }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #8884; vertical-align: top }
td { overflow-wrap: anywhere } code { font-size: .9em }
</style></head><body>
<h1>ORBIT development runtime</h1>
<p>For development and tests, not for production.</p>
$content
</body></html>
""")


def overview(executions: Sequence[Mapping[str, Any]], workers: Iterable[Mapping[str, Any]]) -> str:
    """Return the page for what the views of the same names return."""
    shown = executions[:_MOST_ROWS]
    is_all = len(shown) == len(executions)
    title = "Executions" if is_all else f"The newest {len(shown)} of {len(executions)} executions"
    return _PAGE.substitute(
        content=_table("Workers", ("worker", "runtime", "tasks", "sessions", "in flight"), map(_worker, workers))
        + _table(title, ("execution", "workflow", "status", "steps", "input", "result"), map(_execution, shown))
    )


def refusal(message: str) -> str:
    """Return the page for a visitor without the right credential."""
    text = f"{escape(message)}. This page needs the header <code>authorization: Bearer …</code> with the admin token."
    return _PAGE.substitute(content=f"<p>{text}</p>")


def _worker(worker: Mapping[str, Any]) -> list[str]:
    tasks = ", ".join(f"{item['task_name']} {item['contract_version']}" for item in worker["contracts"])
    online = str(worker["sessions"]) if worker["online"] else "offline"
    return [worker["worker_id"], worker["runtime"], tasks, online, str(worker["in_flight"])]


def _execution(execution: Mapping[str, Any]) -> list[str]:
    steps = ", ".join(f"{step['step']}: {step['status']} (attempt {step['attempt']})" for step in execution["steps"])
    error = execution.get("error")
    result = f"{error['code']}: {error['message']}" if error else json.dumps(execution.get("output", ""))
    workflow = f"{execution['workflow']} {execution['version']}"
    return [execution["id"], workflow, execution["status"], steps, json.dumps(execution["input"]), result]


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{_cell(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<h2>{escape(title)}</h2>\n<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>\n"


def _cell(text: str) -> str:
    return escape(text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…")
