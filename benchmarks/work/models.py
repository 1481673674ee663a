"""The business row, and what a hand-written worker keeps: a record for each key, and the reports that it owes."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """What the business wants: one row for each task."""

    number = models.IntegerField()
    text = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"order {self.pk}"


class Receipt(models.Model):
    """The outcome of one key."""

    key = models.CharField(max_length=255, unique=True)
    output = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.key


class Report(models.Model):
    """One report that is owed until it is settled."""

    receipt = models.ForeignKey(Receipt, on_delete=models.CASCADE)
    token = models.CharField(max_length=255)
    due_at = models.DateTimeField(null=True, db_index=True)
    settled_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"report {self.pk}"
