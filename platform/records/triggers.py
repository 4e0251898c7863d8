"""What is kept of a safety check's finding."""

from __future__ import annotations

from datetime import datetime
from typing import Any, get_args

from django.db import models
from django.utils import timezone

from inference.protocol.policies import ACTIONS, CHECKS, Side

# As records do: a finding outlives what it names. See `records.models`.
_LOOSE: dict[str, Any] = {"on_delete": models.DO_NOTHING, "db_constraint": False, "null": True}


class SafetyTrigger(models.Model):
    """One finding, as `inference.protocol.reports.Trigger` tells of it."""

    id = models.CharField(primary_key=True, max_length=100)  # message, check, side and position
    record = models.ForeignKey(
        "records.RequestRecord", related_name="triggers", db_column="message", verbose_name="request", **_LOOSE
    )
    organization = models.ForeignKey(
        "accounts.Organization", db_index=False, verbose_name="organisation", related_name="+", **_LOOSE
    )
    key = models.ForeignKey("accounts.ApiKey", db_index=False, related_name="+", **_LOOSE)
    model = models.CharField(max_length=200)
    policy = models.CharField(max_length=100)
    # Not `check`: a model has a method of that name.
    check_name = models.CharField("check", max_length=20, choices=[(c, c) for c in CHECKS], db_column="check")
    category = models.CharField(max_length=100)
    action = models.CharField(max_length=10, choices=[(a, a) for a in ACTIONS])
    side = models.CharField(max_length=10, choices=[(side, side) for side in get_args(Side)])
    position = models.PositiveIntegerField()  # in characters
    score = models.FloatField()
    span = models.CharField("span's digest", max_length=128)  # keyed: equal for equal spans
    found_at = models.DateTimeField("found")
    hour = models.PositiveIntegerField(editable=False)  # since the epoch: by it rates are counted
    text = models.TextField(blank=True, default="")
    text_until = models.DateTimeField("text kept until", null=True)

    class Meta:
        ordering = ("-found_at", "-id")
        permissions = [("view_trigger_text", "Can see the texts of safety triggers")]
        indexes = [
            models.Index(fields=["-found_at", "-id"], name="trigger_by_time"),
            models.Index(fields=["organization", "-found_at", "-id"], name="trigger_of_organization"),
            models.Index(fields=["category", "-found_at", "-id"], name="trigger_by_category"),
            models.Index(fields=["hour", "category"], name="trigger_rate"),
            models.Index(fields=["text_until"], name="trigger_text", condition=models.Q(text_until__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.category} ({self.action}) in {self.record_id}"

    def text_at(self, moment: datetime) -> str:
        """Return the text while it may be seen."""
        return self.text if self.text_until and moment < self.text_until else ""

    @property
    def visible_text(self) -> str:
        return self.text_at(timezone.now())
