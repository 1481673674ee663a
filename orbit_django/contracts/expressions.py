"""Give expressions their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orbit_django.contracts.declarations import Expression, Literal


def evaluate(expressions: Mapping[str, Expression], scope: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the value of each expression; ``scope`` holds the input and the outputs, by name.

    Linking has checked that every reference names a declared field of something that has its value by now.
    """
    return {name: value_of(expression, scope) for name, expression in expressions.items()}


def value_of(expression: Expression, scope: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return the value of one expression."""
    if isinstance(expression, Literal):
        return expression.value
    value: Any = scope[expression.source]
    for field in expression.path:
        value = value[field]
    return value
