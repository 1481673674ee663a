"""Check that what expressions name exists, and is of the type that is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from orbit_django.contracts.declarations import ANY, FLOAT, INPUT, INT, LIST, Expression, Literal, Reference, Shape
from orbit_django.contracts.lexer import Position
from orbit_django.contracts.names import instead
from orbit_django.contracts.validation import find_mismatch, type_name


@dataclass(frozen=True, slots=True)
class Scope:
    """What expressions can name: each name stands for an object with fields, or for a value of a type."""

    workflow: str
    names: Mapping[str, Shape | str]

    def beside(self, names: Mapping[str, Shape | str]) -> Scope:
        """Return the scope with more names, which win."""
        return replace(self, names={**self.names, **names})


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose fields are checked, for the messages."""

    name: str
    at: Position


def check_fields(given: Mapping[str, Expression], shape: Shape, scope: Scope, owner: Owner) -> None:
    """Raise ContractSyntaxError unless the expressions give each field of the shape a value of its type."""
    for name, expression in given.items():
        if name not in shape:
            raise expression.at.error(f"{owner.name} has no field `{name}`{instead(name, shape)}")
        check_type(expression, shape[name], name, scope)
    for name, wanted in shape.items():
        if name not in given:
            raise owner.at.error(f"{owner.name} needs a field `{name}` of type {wanted}, which is not given")


def check_type(expression: Expression, wanted: str, name: str, scope: Scope) -> None:
    """Raise ContractSyntaxError unless the expression is of the type."""
    if isinstance(expression, Literal):
        if find_mismatch({name: expression.value}, {name: wanted}) is None:
            return
        found = type_name(expression.value)
    else:
        found = _type_of(expression, scope)
        # Which numbers are whole, and what a value of any type is, is seen when the value is there.
        if found == wanted or {found, wanted} == {INT, FLOAT} or ANY in {found, wanted}:
            return
    raise expression.at.error(f"`{name}` must be {wanted}, this is {found}")


def _type_of(reference: Reference, scope: Scope) -> str:
    if reference.source not in scope.names:
        raise reference.at.error(
            f"there is no step `{reference.source}` in workflow {scope.workflow}"
            + instead(reference.source, (INPUT, *scope.names))
        )
    found = scope.names[reference.source]
    if isinstance(found, str):
        return _inside(reference.source, found, reference.path, reference)
    if not reference.path:
        raise reference.at.error(f"`{reference}` must name a field, such as `{reference}.{next(iter(found), 'name')}`")
    field, *deeper = reference.path
    if field not in found:
        raise reference.at.error(f"`{reference.source}` has no field `{field}`{instead(field, found)}")
    return _inside(f"{reference.source}.{field}", found[field], tuple(deeper), reference)


def _inside(name: str, kind: str, path: tuple[str, ...], reference: Reference) -> str:
    if path and kind != ANY:
        raise reference.at.error(f"`{name}` is {'a list' if kind == LIST else kind} and has no fields")
    return kind
