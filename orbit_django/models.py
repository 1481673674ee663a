"""The tables: idempotency records, the outbox of results, effects, and starts of workflows.

Columns, constraints and the vocabulary of query sets; no transitions. Texts of a runtime or a handler are stored so
that every database can keep them, and compared by a digest. Times that decide are milliseconds by the database's clock.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef, Q

from orbit_django.payloads import cut

# One index finds whole texts and their beginnings on PostgreSQL, for which `db_index` would make two; others ignore it.
BEGINNINGS = ["varchar_pattern_ops"]


class IdempotencyRecordQuerySet(models.QuerySet["IdempotencyRecord"]):
    """States of records as adjectives."""

    def running(self) -> IdempotencyRecordQuerySet:
        """Keep records whose handler runs, or whose owner died."""
        return self.filter(status=IdempotencyRecord.Status.RUNNING)

    def succeeded(self) -> IdempotencyRecordQuerySet:
        """Keep records with a stored success."""
        return self.filter(status=IdempotencyRecord.Status.SUCCEEDED)

    def failed(self) -> IdempotencyRecordQuerySet:
        """Keep records whose latest attempt failed."""
        return self.filter(status=IdempotencyRecord.Status.FAILED)

    def prunable(self, before: datetime, before_ms: object) -> IdempotencyRecordQuerySet:
        """Keep what no delivery needs: ended before then, with every report answered before then.

        An effect that is open keeps its record; any effect keeps a record that has no outcome. ``before_ms`` is
        that time by the database's clock.
        """
        effects = Effect.objects.filter(record=OuterRef("pk"))
        unanswered = OutboxMessage.objects.filter(record=OuterRef("pk")).exclude(
            status__in=OutboxMessage.ANSWERED, settled_at__lt=before
        )
        ended = Q(status__in=["succeeded", "failed"], finished_at__lt=before) & ~Exists(effects.open())
        has_no_owner = Q(lease_ms__isnull=True) | Q(lease_ms__lt=before_ms)
        left_behind = Q(status="running", created_at__lt=before) & has_no_owner & ~Exists(effects)
        return self.filter(ended | left_behind, ~Exists(unanswered))


class IdempotencyRecord(models.Model):
    """What is known about one key of one task; written by ``idempotency`` alone."""

    class Status(models.TextChoices):
        """Where a record stands; a success is final."""

        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"

    key_hash = models.CharField(max_length=64, help_text="Digest of task name, step kind and key: the identity.")
    task_name = models.TextField(help_text="The task that the key belongs to.")
    step_kind = models.CharField(max_length=16, help_text="Plain step, compensation, or step of a handler block.")
    idempotency_key = models.TextField(help_text="The key as the runtime sent it.")
    contract_version = models.TextField(help_text="Version of the contract that the stored outcome was made for.")
    input_hash = models.CharField(max_length=64, help_text="Digest of the input's value.")
    status = models.CharField(max_length=16, choices=Status.choices, help_text="Where the record stands.")
    attempt = models.BigIntegerField(help_text="The attempt that runs, or that the stored outcome belongs to.")
    execution_id = models.CharField(max_length=255, help_text="The execution, cut to fit.")
    step_id = models.CharField(max_length=255, help_text="The step, cut to fit.")
    workflow = models.CharField(max_length=255, help_text="The workflow, cut to fit.")
    output = models.TextField(null=True, help_text="The stored success: JSON text.")  # noqa: DJ001  (not the empty text)
    error = models.TextField(null=True, help_text="The stored failure: JSON text.")  # noqa: DJ001  (as above)
    owner = models.CharField(max_length=64, help_text="Random mark of the claim that may record an outcome.")
    worker_id = models.CharField(max_length=255, help_text="The worker that made the claim.")
    generation = models.BigIntegerField(default=1, help_text="How many claims there were; fences stale owners.")
    lease_ms = models.BigIntegerField(null=True, help_text="When a lasting claim ends, by the database's clock.")
    redeliveries = models.IntegerField(
        default=0, help_text="Runs of this attempt, begun on a redelivery, that ended with their process or still run."
    )
    history = models.TextField(blank=True, help_text="JSON text: who began those runs, and when.")
    created_at = models.DateTimeField(help_text="When the key was first claimed.")
    finished_at = models.DateTimeField(null=True, help_text="When the stored outcome was committed.")

    objects = IdempotencyRecordQuerySet.as_manager()

    class Meta:
        default_permissions = ("view",)
        permissions = [("forget_idempotencyrecord", "Can forget idempotency record, so that its handler runs again")]
        constraints = [models.UniqueConstraint(fields=["key_hash"], name="orbit_record_key")]
        indexes = [
            models.Index(fields=["execution_id"], name="orbit_record_execution_id", opclasses=BEGINNINGS),
            models.Index(fields=["finished_at"], name="orbit_record_finished"),
        ]

    def __str__(self) -> str:
        return cut(f"{self.task_name} {self.idempotency_key}", 120)


class OutboxMessageQuerySet(models.QuerySet["OutboxMessage"]):
    """States of messages as adjectives."""

    def pending(self) -> OutboxMessageQuerySet:
        """Messages that the runtime has not answered."""
        return self.filter(status=OutboxMessage.Status.PENDING)

    def blocked(self) -> OutboxMessageQuerySet:
        """Messages that wait for a person, a new credential or a new worker."""
        return self.filter(status=OutboxMessage.Status.BLOCKED)

    def undelivered(self) -> OutboxMessageQuerySet:
        """Messages without a final answer."""
        return self.filter(status__in=[OutboxMessage.Status.PENDING, OutboxMessage.Status.BLOCKED])

    def answered(self) -> OutboxMessageQuerySet:
        """Messages with a final answer."""
        return self.filter(status__in=OutboxMessage.ANSWERED)

    def depth(self, limit: int = 10_000) -> dict[str, Any]:
        """Count what is pending and blocked, up to ``limit`` in all, with the time of the oldest pending one."""
        is_pending, is_blocked = (Q(status=status) for status in ("pending", "blocked"))
        return self.filter(settled_at__isnull=True)[:limit].aggregate(
            pending=models.Count("pk", filter=is_pending),
            blocked=models.Count("pk", filter=is_blocked),
            oldest=models.Min("created_at", filter=is_pending),
        )


class OutboxMessage(models.Model):
    """One report that is owed to a runtime; written by ``outbox`` alone."""

    class Kind(models.TextChoices):
        """The two ways to report."""

        COMPLETE = "complete"
        FAIL = "fail"

    class Status(models.TextChoices):
        """Where a message stands; all but pending and blocked are final."""

        PENDING = "pending"
        DELIVERED = "delivered"
        REFUSED = "refused"
        BLOCKED = "blocked"

    ANSWERED = (Status.DELIVERED, Status.REFUSED)

    record = models.ForeignKey(
        IdempotencyRecord,
        null=True,
        on_delete=models.CASCADE,
        related_name="messages",
        help_text="The record whose outcome is reported; none for a task that nobody here serves.",
    )
    token = models.TextField(
        help_text="The delivery that waits for it; a secret. A lease's proof goes with the answer."
    )
    token_hash = models.CharField(max_length=64, help_text="Digest of the token.")
    kind = models.CharField(max_length=16, choices=Kind.choices, help_text="The call that is made.")
    body = models.TextField(blank=True, help_text="The exact request body; empty when the record has the output.")
    status = models.CharField(max_length=16, choices=Status.choices, help_text="Where the message stands.")
    due_at = models.BigIntegerField(null=True, help_text="When a hold or a rest ends: ms by the database's clock.")
    sender = models.CharField(max_length=64, blank=True, help_text="Random mark of the sender that holds it now.")
    attempts = models.IntegerField(default=0, help_text="How often it was sent.")
    accepted = models.BooleanField(null=True, help_text="The runtime's answer: did the report change the step?")
    reason = models.TextField(blank=True, help_text="Why the runtime did not accept it.")
    completion_id = models.CharField(max_length=36, blank=True, help_text="Its own id, where the runtime wants one.")
    receipt = models.TextField(blank=True, help_text="The runtime's acknowledgment, where it gives one: JSON text.")
    last_error = models.TextField(blank=True, help_text="What the latest try without an answer ran into.")
    last_status = models.IntegerField(null=True, help_text="Status, in HTTP's numbers, that blocked or refused it.")
    declined_by = models.CharField(max_length=64, blank=True, help_text="The binding that cannot carry it.")
    attempt = models.BigIntegerField(default=1, help_text="The attempt that is reported.")
    execution_id = models.CharField(max_length=255, blank=True, help_text="The execution, cut to fit.")
    worker_id = models.CharField(max_length=255, help_text="The worker that earned it.")
    server = models.CharField(max_length=255, help_text="The runtime that waits for it.")
    created_at = models.DateTimeField(help_text="When the outcome was committed.")
    settled_at = models.DateTimeField(null=True, help_text="When the runtime's final answer was stored.")

    objects = OutboxMessageQuerySet.as_manager()

    class Meta:
        default_permissions = ("view",)
        permissions = [("redeliver_outboxmessage", "Can deliver again"), ("requeue_outboxmessage", "Can requeue")]
        constraints = [models.UniqueConstraint(fields=["token_hash", "kind"], name="orbit_message_token_kind")]
        indexes = [
            models.Index(fields=["execution_id"], name="orbit_message_execution_id", opclasses=BEGINNINGS),
            models.Index(fields=["due_at"], name="orbit_message_due"),
            models.Index(fields=["settled_at"], name="orbit_message_settled"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.execution_id or 'an unknown task'}"


class EffectQuerySet(models.QuerySet["Effect"]):
    """States of effects as adjectives."""

    def open(self) -> EffectQuerySet:
        """Keep effects that began and of which nobody knows whether they happened."""
        return self.filter(status__in=[Effect.Status.STARTED, Effect.Status.UNCERTAIN])

    def uncertain(self) -> EffectQuerySet:
        """Keep incidents: open effects that wait for a person."""
        return self.filter(status=Effect.Status.UNCERTAIN)


class Effect(models.Model):
    """One named effect of a task that is not atomic; written by ``effects`` alone."""

    class Status(models.TextChoices):
        """Where an effect stands; a finished one is never called again."""

        STARTED = "started"
        FINISHED = "finished"
        UNCERTAIN = "uncertain"
        NOT_HAPPENED = "not_happened"

    record = models.ForeignKey(
        IdempotencyRecord, on_delete=models.CASCADE, related_name="effects", help_text="The task it belongs to."
    )
    name = models.CharField(max_length=255, help_text="The name that the handler gave it, cut to fit.")
    name_hash = models.CharField(max_length=64, help_text="Digest of kind and name.")
    status = models.CharField(max_length=16, choices=Status.choices, db_index=True, help_text="Where it stands.")
    result = models.TextField(  # noqa: DJ001  (none is not the empty text)
        null=True, help_text="What the call brought: JSON text."
    )
    error = models.TextField(blank=True, help_text="Why nobody knows what became of it.")
    owner = models.CharField(max_length=64, blank=True, help_text="Mark of the claim that called, or will.")
    settled_by = models.CharField(max_length=255, blank=True, help_text="Who said what became of it.")
    started_at = models.DateTimeField(help_text="When it was first begun.")
    finished_at = models.DateTimeField(null=True, help_text="When its result was kept.")

    objects = EffectQuerySet.as_manager()

    class Meta:
        default_permissions = ("view",)
        permissions = [("settle_effect", "Can say of an open effect whether it happened")]
        constraints = [models.UniqueConstraint(fields=["record", "name_hash"], name="orbit_effect_name")]

    def __str__(self) -> str:
        return f"{self.name} of {self.record}"

    @property
    def is_open(self) -> bool:
        """Whether it began and nobody knows whether it happened."""
        return self.status in (Effect.Status.STARTED, Effect.Status.UNCERTAIN)


class WorkflowStartQuerySet(models.QuerySet["WorkflowStart"]):
    """States of starts as adjectives."""

    def pending(self) -> WorkflowStartQuerySet:
        """Keep starts that the runtime has not answered."""
        return self.filter(status=WorkflowStart.Status.PENDING)

    def blocked(self) -> WorkflowStartQuerySet:
        """Keep starts that wait for a person or for another credential."""
        return self.filter(status=WorkflowStart.Status.BLOCKED)

    def answered(self) -> WorkflowStartQuerySet:
        """Keep starts with a final answer."""
        return self.filter(status__in=[WorkflowStart.Status.STARTED, WorkflowStart.Status.REFUSED])


class WorkflowStart(models.Model):
    """One execution that was asked for in a transaction; written by ``starts`` alone."""

    class Status(models.TextChoices):
        """Where a start stands; started and refused are final."""

        PENDING = "pending"
        STARTED = "started"
        REFUSED = "refused"
        BLOCKED = "blocked"

    workflow = models.TextField(help_text="The workflow to start.")
    execution_id = models.TextField(help_text="The id of the execution; it makes the start exactly once.")
    id_hash = models.CharField(max_length=64, unique=True, help_text="Digest of the execution id.")
    input = models.TextField(help_text="JSON text of the input, sent as it is.")
    input_hash = models.CharField(max_length=64, help_text="Digest of the input's value.")
    status = models.CharField(max_length=16, choices=Status.choices, help_text="Where the start stands.")
    due_at = models.BigIntegerField(null=True, db_index=True, help_text="When to send: ms by the database's clock.")
    sender = models.CharField(max_length=64, blank=True, help_text="Random mark of the sender that holds it now.")
    attempts = models.IntegerField(default=0, help_text="How often it was sent.")
    last_error = models.TextField(blank=True, help_text="What the latest try ran into.")
    last_status = models.IntegerField(null=True, help_text="HTTP status that blocked or refused it.")
    created_at = models.DateTimeField(help_text="When it was asked for.")
    settled_at = models.DateTimeField(null=True, help_text="When the runtime's final answer was stored.")

    objects = WorkflowStartQuerySet.as_manager()

    class Meta:
        default_permissions = ("view",)
        permissions = [("redeliver_workflowstart", "Can have unanswered workflow start sent at once")]
        indexes = [models.Index(fields=["settled_at"], name="orbit_start_settled")]

    def __str__(self) -> str:
        return f"{self.workflow} {self.execution_id}"
