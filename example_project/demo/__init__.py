"""The shop under fire: orders go through while the worker is killed, and then everything is counted.

``python -m example_project.demo`` plays it. ``scene`` is the place, ``processes`` the players, ``story`` what
happens, ``books`` what must be true in the end, ``screen`` what is shown.
"""


class DemoError(Exception):
    """The demo cannot go on; the text says why, for a person."""
