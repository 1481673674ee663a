"""Create the table of effects."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """The first state of the test app."""

    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Charge",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.TextField(help_text="the idempotency key that the row was written for")),
                ("amount", models.BigIntegerField(default=0, help_text="cents")),
                ("attempt", models.IntegerField(default=1, help_text="the attempt that wrote the row")),
                (
                    "nonce",
                    models.CharField(blank=True, default="", help_text="tells one run from another", max_length=64),
                ),
            ],
        ),
    ]
