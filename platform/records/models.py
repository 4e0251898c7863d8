"""What is kept of a request: numbers, never words."""

from __future__ import annotations

from typing import Any

from django.db import models

from accounts.models import ApiKey, Organization
from inference.protocol.outcomes import OUTCOMES
from records.triggers import SafetyTrigger as SafetyTrigger

# No constraints in the database: a record outlives what it names, and one bad row must not stop a bulk insert.
# Always set, but null=True makes Django join by LEFT JOIN, which keeps records whose key is gone. No index of its own:
# each that is needed begins with it.
_LOOSE: dict[str, Any] = {"on_delete": models.DO_NOTHING, "db_constraint": False, "db_index": False}


class RequestRecord(models.Model):
    """One message, merged from its worker's settlement and its readers' deliveries, any of which may be missing.

    Times are in ms. `outcome` is empty until the settlement is in.
    """

    id = models.CharField(primary_key=True, max_length=40)
    organization = models.ForeignKey(Organization, null=True, **_LOOSE)
    key = models.ForeignKey(ApiKey, null=True, **_LOOSE)
    model = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    input_tokens = models.PositiveIntegerField()

    # from the settlement
    outcome = models.CharField(max_length=20, blank=True, default="", choices=[(o, o) for o in OUTCOMES])
    output_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)  # of the input
    attempts = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=100, blank=True, default="")
    finished_at = models.DateTimeField(null=True)
    queue_ms = models.FloatField(null=True)
    prefill_ms = models.FloatField(null=True)  # claim to first token
    batch_wait_ms = models.FloatField(null=True)  # of these, before the engine let it into the batch
    generation_ms = models.FloatField(null=True)
    checks = models.JSONField(default=dict)  # safety check -> ms
    held_tokens = models.PositiveIntegerField(default=0)  # the most that safety held back at a time
    held_ms = models.FloatField(null=True)  # for how long the first of them

    # from the delivery of its first reader
    gateway = models.CharField(max_length=100, blank=True, default="")
    streamed = models.BooleanField(null=True)
    ttft_ms = models.FloatField(null=True)
    stream_ms = models.FloatField(null=True)
    tbt_p99_ms = models.FloatField(null=True)
    total_ms = models.FloatField(null=True)
    stages = models.JSONField(default=dict)
    # from those of all its readers
    bytes_sent = models.PositiveBigIntegerField(null=True)
    resumes = models.PositiveIntegerField(default=0)
    readers = models.JSONField(default=dict)  # request id -> [ms late, bytes sent, 1 if it resumed, else 0]

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="record_by_time"),
            models.Index(fields=["organization", "key", "-created_at", "-id"], name="record_by_key"),
            models.Index(fields=["model", "-created_at", "-id"], name="record_by_model"),
            models.Index(fields=["outcome", "-created_at", "-id"], name="record_by_outcome"),
            models.Index(fields=["-ttft_ms", "-created_at"], name="record_by_ttft"),
            # With what else an organisation's records are filtered by: those left out are not read from the table.
            models.Index(
                fields=["organization", "-created_at", "-id", "outcome", "model"], name="record_of_organization"
            ),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token after the first."""
        if self.stream_ms is None or self.output_tokens < 2:
            return None
        return self.stream_ms / (self.output_tokens - 1)


class DailyUsage(models.Model):
    """What settled records of one UTC day come to, kept exact by `records.usage` in the transactions that settle them.

    It stays when records are pruned. Rows are written by their difference, so sums are signed.
    """

    day = models.DateField()  # on which the messages came, in UTC
    organization = models.ForeignKey(Organization, null=True, **_LOOSE)
    key = models.ForeignKey(ApiKey, null=True, **_LOOSE)
    model = models.CharField(max_length=200)
    outcome = models.CharField(max_length=20, choices=[(o, o) for o in OUTCOMES])
    requests = models.BigIntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)  # of the input
    output_tokens = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("-day", "-id")
        verbose_name = verbose_name_plural = "daily usage"
        constraints = [
            # In the order in which an organisation's range of days is read.
            models.UniqueConstraint(fields=["organization", "day", "key", "model", "outcome"], name="one_sum_each"),
        ]
        indexes = [models.Index(fields=["-day", "-id"], name="usage_by_day")]

    def __str__(self) -> str:
        return f"{self.day} {self.organization_id} {self.key_id} {self.model} {self.outcome}"


class Retention(models.Model):
    """One row: records of messages that came before `since` are pruned, and reports of them come too late."""

    since = models.DateTimeField()

    def __str__(self) -> str:
        return f"records since {self.since:%Y-%m-%d %H:%M}"
