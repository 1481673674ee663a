"""Throw-away certificates for tests, made with the openssl command."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from orbit_django.embedded.server import server_context


class Authority:
    """A certificate authority in a folder of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.certificate = folder / f"{name}.pem"
        self.key = folder / f"{name}.key"
        extensions = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"]
        openssl("req", "-x509", *new_key(self.key), "-out", self.certificate, "-subj", f"/CN={name}", *extensions)

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the paths of a certificate for 127.0.0.1 and of its key."""
        certificate, key, request = (self.folder / f"{name}.{end}" for end in ("crt", "key", "csr"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl("req", "-new", *new_key(key), "-out", request, "-subj", f"/CN={name}")
        issuer = ["-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial"]
        openssl("x509", "-req", "-in", request, *issuer, "-days", "2", "-extfile", extensions, "-out", certificate)
        return certificate, key

    def server_context(self, *, client_authority: "Authority | None" = None) -> ssl.SSLContext:
        """Return what a server needs; with a client authority it insists on a certificate of its clients."""
        clients = str(client_authority.certificate) if client_authority else None
        context = server_context(*map(str, self.issue("server")), clients)
        assert context is not None
        if client_authority:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def new_key(path: Path) -> list[str | Path]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path]


def openssl(*arguments: str | Path) -> None:
    command = shutil.which("openssl")
    if command is None:
        pytest.skip("the openssl command makes the certificates, and there is none here")
    subprocess.run([command, *arguments], check=True, capture_output=True)
