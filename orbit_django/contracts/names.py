"""What to say of a name that nobody declared: the one that was meant, or those there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 10


def instead(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that says that ``name`` is unknown."""
    names = sorted(set(known))
    if not names:
        return "; there is none"
    shown = ", ".join(f"`{known}`" for known in names[:_MOST])
    listed = f"known are {shown}" + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
    if not (close := likely(name, names)):
        return f"; {listed}"
    return f"; did you mean `{close}`?" + (f" ({listed})" if len(names) > 1 else "")


def likely(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant, or "".

    Names of one family begin alike, so the part behind the last dot has to be similar by itself.
    """
    close = difflib.get_close_matches(name, list(known), n=_MOST)
    return next((each for each in close if difflib.get_close_matches(_last(name), [_last(each)])), "")


def _last(name: str) -> str:
    return name.rpartition(".")[2]
