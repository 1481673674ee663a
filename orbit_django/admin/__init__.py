"""The tables in Django's admin: looked at by people, written by nobody here."""

from orbit_django.admin import idempotency_record, outbox_message

__all__ = ["idempotency_record", "outbox_message"]
