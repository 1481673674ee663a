"""The tables in Django's admin: looked at by people; what they decide is filed by the owners of the tables."""

from orbit_django.admin import effect, idempotency_record, outbox_message, workflow_start

__all__ = ["effect", "idempotency_record", "outbox_message", "workflow_start"]
