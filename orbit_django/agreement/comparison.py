"""Handlers compared with contracts: names, versions, and the fields of inputs and outputs.

A difference is wrong when no run of the handler could succeed, and doubtful when somebody should look at it. Handlers
without types are compared by name and version alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import NoneType

from orbit_django.agreement.fields import Field, Form, Kinds, form_of
from orbit_django.contracts import FLOAT, INT, LIST, STRING, Catalog, TaskContract
from orbit_django.contracts.names import instead
from orbit_django.tasks import Task

NO_CONTRACT, OTHER_VERSION, NO_HANDLER, DOUBT, WRONG = "W003", "W004", "W005", "W006", "E006"
READS = {STRING: {"string"}, INT: {"integer", "number"}, FLOAT: {"number"}, LIST: {"array"}}
GIVES = {STRING: {"string"}, INT: {"integer"}, FLOAT: {"integer", "number"}, LIST: {"array"}}
PARTLY = {INT: {"number"}}  # of what is given: 3.0 is a whole number, 3.5 is none


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which handlers and contracts do not agree."""

    code: str  # of the system check: W003, W004, W005, W006 or E006
    task_name: str
    version: str  # "" when it is about the name
    text: str
    advice: str

    @property
    def is_wrong(self) -> bool:
        """Whether no run of the handler could succeed."""
        return self.code.startswith("E")


def compare(tasks: Iterable[Task], catalog: Catalog, runtime: str = "python") -> list[Difference]:
    """Return every difference, in the order of names; none when nothing is declared.

    ``runtime`` is the language of the workers: what a workflow asks another one for needs no handler here (O064).
    """
    handlers = {(task.contract.task_name, task.contract.contract_version): task for task in tasks}
    if not catalog.tasks:
        return []
    found = [*_missing_contracts(handlers, catalog), *_missing_handlers(set(handlers), catalog, runtime)]
    for key, contract in catalog.tasks.items():
        if key in handlers:
            found += _about_fields(handlers[key], contract)
    return sorted(found, key=lambda each: (each.task_name, each.version))


def _missing_contracts(handlers: dict[tuple[str, str], Task], catalog: Catalog) -> Iterator[Difference]:
    declared = _versions(catalog.tasks)
    served = _versions(handlers)
    for (name, version), task in handlers.items():
        if name not in declared:
            text = f"{task.place}: CONTRACTS declares no task {name!r}{instead(name, declared)}"
            yield Difference(NO_CONTRACT, name, version, text, "Declare it, or correct the name in @task.")
    for name in served.keys() & declared.keys():
        if not served[name] & declared[name]:
            ours, theirs = ", ".join(sorted(served[name])), ", ".join(sorted(declared[name]))
            text = f"{name}: the handler is of version {ours}, CONTRACTS declares {theirs}"
            yield Difference(OTHER_VERSION, name, "", text, "Tasks are matched by exactly this text: make them equal.")


def _missing_handlers(served: set[tuple[str, str]], catalog: Catalog, runtime: str) -> Iterator[Difference]:
    users = _users(catalog)
    names = _versions(served)
    for (name, version), contract in catalog.tasks.items():
        is_told = name in names and not names[name] & _versions(catalog.tasks)[name]  # by its version
        languages = users.get((name, version))
        is_ours = name not in names if languages is None else bool(languages & {"", "any", runtime.lower()})
        if (name, version) not in served and is_ours and not is_told:
            text = f"{contract.at}: {name} {version} has no handler in this project"
            advice = "Write it (orbit_tasks --stubs does the beginning), or silence this where others serve it."
            yield Difference(NO_HANDLER, name, version, text, advice)


def _versions(keys: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in keys:
        found.setdefault(name, set()).add(version)
    return found


def _users(catalog: Catalog) -> dict[tuple[str, str], set[str]]:
    """Return, for each task that a workflow calls, the languages that it is asked of; "" for any."""
    found: dict[tuple[str, str], set[str]] = {}
    for workflow in catalog.workflows.values():
        for unit, call in workflow.calls.items():
            contract = workflow.contracts[unit]
            found.setdefault((contract.name, contract.version), set()).add((call.using or "").lower())
    return found


def _about_fields(task: Task, contract: TaskContract) -> Iterator[Difference]:
    told = f"{task.place}, {contract.name} {contract.version}"
    advice = f"Compare the handler's types with {contract.at}."
    for code, text in (*_about_input(task, contract), *_about_output(task, contract)):
        yield Difference(code, contract.name, contract.version, f"{told}: {text}", advice)


def _about_input(task: Task, contract: TaskContract) -> Iterator[tuple[str, str]]:
    form = form_of(task.input_type, is_output=False)
    if form is None:
        return
    for name, field in form.fields.items():
        if name not in contract.input:
            end = _instead(name, contract.input, form.fields)
            need = "needs" if field.is_sure else "reads"
            code = WRONG if field.is_sure else DOUBT
            yield code, f"the input {form.name} {need} `{name}`, which the contract does not give{end}"
    for name, wanted in contract.input.items():
        if name not in form.fields:
            what = "does not read" if form.is_open else "refuses"
            yield DOUBT if form.is_open else WRONG, f"the input {form.name} {what} `{name}`, which the contract gives"
        elif not _reads(form.fields[name].kinds, wanted):
            code = DOUBT if form.is_lenient else WRONG
            yield code, _mismatch("input", form, name, wanted)


def _about_output(task: Task, contract: TaskContract) -> Iterator[tuple[str, str]]:
    form = form_of(task.output_type, is_output=True)
    if form is None:
        if contract.output and _gives_nothing(task):
            fields = ", ".join(f"`{name}`" for name in contract.output)
            yield WRONG, f"the handler returns None, which is sent as {{}}, and the contract wants {fields}"
        return
    for name, wanted in contract.output.items():
        if name not in form.fields:
            end = _instead(name, form.fields, contract.output)
            code = DOUBT if form.is_open else WRONG
            yield code, f"the output {form.name} has no `{name}`, which the contract wants{end}"
        elif code := _doubt(form.fields[name], wanted):
            yield code, _mismatch("output", form, name, wanted)


def _instead(name: str, there: Iterable[str], used: Iterable[str]) -> str:
    """Return the end of a sentence that says that a field is missing: which ones are there, not used yet if any."""
    there, used = set(there), set(used)
    return instead(name, there - used or there) if there else ""


def _reads(kinds: Kinds, wanted: str) -> bool:
    return kinds is None or wanted not in READS or bool(kinds & READS[wanted])


def _doubt(field: Field, wanted: str) -> str:
    """Return the code for an output's field that may not, or never can, be what the contract wants; else ""."""
    if field.kinds is not None and wanted in GIVES:
        good, fair = field.kinds & GIVES[wanted], field.kinds & PARTLY.get(wanted, set())
        if not good and not fair:
            return WRONG
        if field.kinds != good:
            return DOUBT
    return "" if field.is_sure else DOUBT


def _mismatch(side: str, form: Form, name: str, wanted: str) -> str:
    field = form.fields[name]
    is_missing = side == "output" and not field.is_sure
    said = f"{field.told}, and may be missing" if is_missing else field.told
    return f"`{name}` of the {side} {form.name} is {said}; the contract declares {wanted}"


def _gives_nothing(task: Task) -> bool:
    """Return whether the handler says that it returns None, which no declared output overrides."""
    said = getattr(task.function, "__annotations__", {}).get("return", "")
    return task.output_type is None and said in (None, NoneType, "None")
