"""Receipts by mail, and a mail backend that can say what was sent.

A mail cannot be taken back, and most mail servers send what they are told as often as they are told. So each
receipt has a Message-ID made from its key, and ``find_receipt`` asks whether that mail went out already.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from django import VERSION
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend

DOMAIN = "shop.example"
TEXT = """Dear {customer},

we received {amount} for your order {order} (charge {charge}). Thank you!

The example shop
"""


class FolderBackend(BaseEmailBackend):
    """Write each mail as one file into SHOP_MAIL_FOLDER, named after its Message-ID.

    A mail sent twice is two files: the backend never hides a double.
    """

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Write the mails and return their number."""
        folder = Path(settings.SHOP_MAIL_FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        for message in email_messages:
            built = message.message()
            name = f"{_local_part(str(built['Message-ID']))}.{uuid4().hex}"
            draft = folder / f"{name}.draft"
            draft.write_bytes(built.as_bytes())
            draft.rename(folder / f"{name}.eml")  # from this moment on the mail is out, all of it
        return len(email_messages)


def send_receipt(key: str, email: str, text: str) -> str:
    """Mail a receipt and return its Message-ID."""
    headers = {"Message-ID": message_id(key)}
    EmailMessage("Your receipt", text, to=[email], headers=headers).send()
    return message_id(key)


def find_receipt(key: str, *_args: object) -> str | None:
    """Return the Message-ID if the mail for this key went out, None if it did not.

    Raises LookupError with a backend that keeps no record of what it sent: then a person has to decide.
    """
    backend = _backend()
    if not isinstance(backend, FolderBackend):
        raise LookupError(f"{type(backend).__module__} cannot tell whether a mail went out")
    return message_id(key) if message_id(key) in sent_mails() else None


def _backend() -> object:
    """Return what sends mails: since Django 6.1 one of several by name."""
    if VERSION < (6, 1):
        return get_connection()
    from django.core.mail import mailers

    return mailers["default"]


def message_id(key: str) -> str:
    """Return the Message-ID of a key's mail; the digest keeps any key short and plain."""
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:40]}@{DOMAIN}>"


def sent_mails() -> Counter[str]:
    """Return how often each Message-ID was sent."""
    files = Path(settings.SHOP_MAIL_FOLDER).glob("*.eml")
    return Counter(f"<{file.name.partition('.')[0]}@{DOMAIN}>" for file in files)


def _local_part(sent_id: str) -> str:
    return sent_id.strip("<>").partition("@")[0]
