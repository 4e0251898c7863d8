"""What is kept of a request: numbers, never words."""

from __future__ import annotations

from django.db import models

from accounts.models import ApiKey, Organization
from inference.protocol.outcomes import OUTCOMES


class RequestRecord(models.Model):
    """One message, merged from its worker's settlement and its readers' deliveries, any of which may be missing.

    Times are in ms. `outcome` is empty until the settlement is in.
    """

    id = models.CharField(primary_key=True, max_length=40)
    # No constraints in the database: a record outlives what it names, and one bad row must not stop a bulk insert.
    # Always set, but null=True makes Django join by LEFT JOIN, which keeps records whose key is gone.
    organization = models.ForeignKey(Organization, on_delete=models.DO_NOTHING, db_constraint=False, null=True)
    key = models.ForeignKey(ApiKey, on_delete=models.DO_NOTHING, db_constraint=False, null=True)
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
    prefill_ms = models.FloatField(null=True)
    generation_ms = models.FloatField(null=True)

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
            models.Index(fields=["organization", "-created_at", "-id"], name="record_by_organization"),
            models.Index(fields=["-created_at", "-id"], name="record_by_time"),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token after the first."""
        if self.stream_ms is None or self.output_tokens < 2:
            return None
        return self.stream_ms / (self.output_tokens - 1)
