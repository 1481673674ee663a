"""Give expressions their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orbit_django.contracts.declarations import Expression, Literal
from orbit_django.exceptions import ExpressionError


def evaluate(expressions: Mapping[str, Expression], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each expression; ``scope`` holds the input and the outputs, by name.

    Raises ExpressionError. Linking has checked that every reference names something that is declared; what a value of
    type Any holds, and whether another step had an output at the end, is seen here.
    """
    return {name: value_of(expression, scope) for name, expression in expressions.items()}


def value_of(expression: Expression, scope: Mapping[str, Any]) -> Any:
    """Return the value of one expression; raises ExpressionError."""
    if isinstance(expression, Literal):
        return expression.value
    value: Any = scope
    for number, name in enumerate((expression.source, *expression.path)):
        if not isinstance(value, Mapping) or name not in value:
            known = ".".join((expression.source, *expression.path)[:number]) or "here"
            raise ExpressionError(f"`{expression}` has no value: there is no `{name}` in {known}")
        value = value[name]
    return value
