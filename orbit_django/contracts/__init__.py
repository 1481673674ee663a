"""`.orbit` files: the grammar, the types and the checks of values against them.

Exactly the part of the language that the protocol's documents show is read; anything else is an error with file,
line and column. This package knows nothing of Django, of the network, or of who runs the workflows.
"""

from orbit_django.contracts.catalog import Catalog, load, read
from orbit_django.contracts.declarations import (
    ANY,
    FLOAT,
    INT,
    LIST,
    STRING,
    Call,
    Expression,
    Literal,
    Reference,
    RetryPolicy,
    Step,
    TaskContract,
    Workflow,
)
from orbit_django.contracts.lexer import Position
from orbit_django.contracts.units import Unit
from orbit_django.contracts.validation import find_mismatch, mismatches

__all__ = [
    "ANY",
    "FLOAT",
    "INT",
    "LIST",
    "STRING",
    "Call",
    "Catalog",
    "Expression",
    "Literal",
    "Position",
    "Reference",
    "RetryPolicy",
    "Step",
    "TaskContract",
    "Unit",
    "Workflow",
    "find_mismatch",
    "load",
    "mismatches",
    "read",
]
