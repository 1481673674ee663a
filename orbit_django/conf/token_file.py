"""A bearer token in a file that somebody else renews."""

from __future__ import annotations

from pathlib import Path

from orbit_django.conf.files import Mark, mark_of
from orbit_django.conf.texts import is_header_text
from orbit_django.exceptions import ConfigurationError


class TokenFile:
    """A file that holds a bearer token, read again when it changes; unreadable, the last token stays in use."""

    def __init__(self, path: str, setting: str = "WORKER_TOKEN_FILE") -> None:
        self._path = Path(path)
        self._setting = setting  # for messages
        self._mark: Mark | None = None
        self.seen: tuple[str, ...] = ()

    def read(self) -> str | None:
        """Return the token in the file; raise ConfigurationError when there never was one."""
        try:
            mark = mark_of(self._path)
            if mark is None or mark != self._mark:
                text = self._path.read_text(encoding="utf-8-sig").strip()
                if text and is_header_text(text):
                    self.seen = (*(old for old in self.seen if old != text), text)[-3:]
                    self._mark = mark
        except (OSError, UnicodeDecodeError) as error:
            if not self.seen:
                why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
                raise ConfigurationError(f"{self._setting}: {self._path} cannot be read: {why}") from None
        if not self.seen:
            raise ConfigurationError(f"{self._setting}: {self._path} holds no token, or one that no header can carry")
        return self.seen[-1]
