"""The one table of the test app."""

from django.db import models


class Charge(models.Model):
    """One effect of a handler: exactly one row per key is what the tests look for."""

    key = models.TextField(help_text="the idempotency key that the row was written for")
    amount = models.BigIntegerField(default=0, help_text="cents")
    attempt = models.IntegerField(default=1, help_text="the attempt that wrote the row")
    nonce = models.CharField(max_length=64, blank=True, default="", help_text="tells one run from another")

    def __str__(self) -> str:
        return f"{self.key}: {self.amount}"
