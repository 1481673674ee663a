"""One JSON call at a time per thread over HTTP, within a total time limit.

A call is made once: no retries, no redirects, no cookies, nothing from the environment. Whatever goes wrong on the
way is a ``NoAnswerError`` whose text holds no header and no credential.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import weakref
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from http.cookiejar import DefaultCookiePolicy
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError

from orbit_django.conf.addresses import is_loopback
from orbit_django.exceptions import ConfigurationError, NoAnswerError, PayloadError
from orbit_django.redaction import redacted
from orbit_django.transports.answers import Answer, whole
from orbit_django.transports.credential import Credential, bearer
from orbit_django.transports.kept import HEADERS, KeptConnection, Place
from orbit_django.transports.limits import CALL, TimedAdapter
from orbit_django.transports.reading import CHUNK_BYTES
from orbit_django.transports.tls import TlsFiles

Opened = TypeVar("Opened", "Session", KeptConnection)


class Names(NamedTuple):
    """What messages call the settings that a connection was made from."""

    server: str = "SERVER"
    credential: str = "WORKER_TOKEN, WORKER_TOKEN_FILE and TOKEN"


class HttpConnection:
    """Calls to one server, safe to use from many threads: each thread keeps one connection of its own.

    ``server`` is a URL without a trailing slash, ``credential`` is asked for the bearer token before each call
    (None: no header, O030), the others are paths of PEM files and the URL of a proxy. With ``is_lean``, ``post`` goes
    a shorter way than ``requests``, except through a proxy.
    """

    def __init__(  # noqa: PLR0913  (the settings, each by name)
        self,
        server: str,
        *,
        credential: Credential,
        ca_cert: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        proxy: str | None = None,
        is_lean: bool = False,
        names: Names = Names(),  # noqa: B008  (it is frozen)
    ) -> None:
        self._names = names
        self.server = _checked(server, names.server)
        self._place = Place.of(self.server) if is_lean and not proxy else None
        self._credential = credential
        self._proxy = proxy
        self._is_local = not proxy and is_loopback(urlsplit(server).hostname or "")
        is_tls = any(url and url.startswith("https:") for url in (server, proxy))
        self._tls = TlsFiles(ca_cert, client_cert, client_key) if is_tls else None
        self._own = _Own()
        self._opened: weakref.WeakSet[Session | KeptConnection] = weakref.WeakSet()
        self._lock = threading.Lock()

    def call(
        self,
        method: str,
        path: str,
        body: str | None,
        *,
        connect_seconds: float,
        total_seconds: float,
        content_type: str = "application/json",
    ) -> Answer:
        """Make one call and return whatever the server answered (O010, O011).

        ``body`` is the text to send, exactly; None sends none. Raises NoAnswerError when no whole answer
        came within ``total_seconds``, and ConfigurationError for a credential that no header can carry.
        """
        content = None if body is None else _encoded(body)
        headers = {} if content is None else {"content-type": content_type}
        session = self._mine(Session, lambda context: Session(self._credential, context, self._proxy, self._names))
        CALL.begin(connect_seconds, total_seconds)
        try:
            with session.request(
                method,
                self.server + path,
                data=content,
                headers=headers,
                timeout=(connect_seconds, total_seconds),
                allow_redirects=False,
                stream=True,
            ) as response:
                return Answer(response.status_code, response.headers, whole(response.iter_content(CHUNK_BYTES)))
        except (OSError, HTTPError, HTTPException) as error:
            raise self._no_answer(f"{method} {path}", error, total_seconds) from None

    def post(self, path: str, body: str, *, connect_seconds: float, total_seconds: float) -> Answer:
        """Do what ``call`` does for the calls that are made all the time."""
        if self._place is None:
            return self.call("POST", path, body, connect_seconds=connect_seconds, total_seconds=total_seconds)
        content, authorization = _encoded(body), bearer(self._credential(), self._names.credential)
        kept = self._mine(KeptConnection, partial(KeptConnection, self._place))
        CALL.begin(connect_seconds, total_seconds)
        try:
            return kept.post(path, authorization, content)
        except (OSError, HTTPException) as error:
            raise self._no_answer(f"POST {path}", error, total_seconds) from None

    def redact(self, text: str, *secrets: str) -> str:
        """Return the text without the credential and without the other secrets named."""
        return redacted(text, credentials=(self._credential(),), tokens=secrets)

    def close(self) -> None:
        """Close every connection that is not in the middle of a call; a later call opens a new one."""
        with self._lock:
            opened = list(self._opened)
        for each in opened:
            each.close()

    def _mine(self, kind: type[Opened], make: Callable[[ssl.SSLContext | None], Opened]) -> Opened:
        """Return what this thread has opened of a kind; a fork or changed certificates make a new one."""
        context = self._tls.context() if self._tls else None
        mark = (os.getpid(), context)
        known: tuple[object, Opened] | None = self._own.opened.get(kind)
        if known is None or known[0] != mark:
            known = self._own.opened[kind] = (mark, make(context))
            with self._lock:
                self._opened.add(known[1])
        return known[1]

    def _no_answer(self, what: str, error: Exception, total_seconds: float) -> NoAnswerError:
        cause = _cause(error)
        reason = f"{_reason(cause)} ({type(cause).__name__})"
        if not CALL.is_sending:
            if self._is_local and isinstance(cause, ConnectionRefusedError):
                what = self._names.server
                way = "; for development start: manage.py orbit_runtime" if what == Names().server else ""
                text = f"nothing listens at {self.server} ({what}){way}"
                return NoAnswerError(text, is_maybe_processed=False)
            where = f"{self._names.server} and {'CA_CERT' if isinstance(cause, ssl.SSLError) else 'PROXY'}"
            way = " through the proxy" if self._proxy else ""
            text = f"{what}: no connection to {self.server}{way}: {reason}; if that lasts, look at {where}"
            return NoAnswerError(text, is_maybe_processed=False)
        if isinstance(cause, TimeoutError):
            return NoAnswerError(f"{what}: no whole answer from {self.server} within {total_seconds:g} s")
        return NoAnswerError(f"{what}: no answer from {self.server}: {reason}")


class _Own(threading.local):
    """What a thread has opened, by its kind, with the process and the certificates that it was opened for."""

    def __init__(self) -> None:
        self.opened: dict[type, Any] = {}


class Session(requests.Session):
    """A session of one thread that takes nothing from the environment and keeps nothing between calls."""

    def __init__(self, credential: Credential, context: ssl.SSLContext | None, proxy: str | None, names: Names) -> None:
        super().__init__()
        self.trust_env = False
        self.auth = _Bearer(credential, names.credential)
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.headers.update(HEADERS)
        if proxy:
            self.proxies = {"http": proxy, "https": proxy}
        for scheme in ("http://", "https://"):
            self.mount(scheme, TimedAdapter(context, proxy))

    def get_redirect_target(self, resp: requests.Response) -> None:
        """See no redirect anywhere: even preparing one that is not followed would read the body without a limit."""


class _Bearer(AuthBase):
    """Adds the authorization header, so that the credential is no local variable of a frame that may fail."""

    def __init__(self, credential: Credential, names: str) -> None:
        self._credential = credential
        self._names = names

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if authorization := bearer(self._credential(), self._names):
            request.headers["authorization"] = authorization
        return request


def _checked(server: str, name: str) -> str:
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{name}: expected a URL of the form http://host:port or https://host:port")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(f"{name}: the URL must not carry a user or a password; use WORKER_TOKEN")
    return server.rstrip("/")


def _encoded(body: str) -> bytes:
    try:
        return body.encode()
    except UnicodeEncodeError as error:
        raise PayloadError("$", f"character {error.start} of the body is a lone surrogate") from None


def _cause(error: Exception) -> Exception:
    """Return the innermost error; implicit contexts are left out, they may belong to the caller."""
    inner: object = error
    while isinstance(inner, Exception):
        error = inner
        wrapped = [getattr(error, "reason", None), *reversed(error.args), error.__cause__]
        inner = next((one for one in wrapped if isinstance(one, Exception)), None)
    return error


def _reason(cause: Exception) -> str:
    """Return words for the cause that quote nothing which the other side sent."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate was not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS: {cause.reason or 'broken off'}"
    if isinstance(cause, TimeoutError):
        return "not in time"
    if isinstance(cause, socket.gaierror):
        return f"the name is not known: {cause.strerror}"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return "closed without a whole answer, or not HTTP"
