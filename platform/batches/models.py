"""Batches, the requests of theirs that have not ended, and the results of those that have.

A request goes when its result comes, in one transaction, so that it has one or the other, and its body is kept no
longer than it is needed.
"""

from __future__ import annotations

from typing import Literal, get_args

from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.models import ApiKey, Organization
from common.ids import new_id

Kind = Literal["succeeded", "errored", "canceled", "expired"]  # of a result
KINDS: tuple[Kind, ...] = get_args(Kind)
Status = Literal["in_progress", "canceling", "ended"]


def new_batch_id() -> str:
    return new_id("msgbatch")


class Batch(models.Model):
    """Requests that came together. How many of them are at what is kept here, exactly."""

    id = models.CharField(primary_key=True, max_length=40, default=new_batch_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, db_index=False, related_name="+", verbose_name="organisation"
    )
    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, db_index=False, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    cancel_initiated_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    archived_at = models.DateTimeField(null=True)
    processing = models.PositiveIntegerField()
    succeeded = models.PositiveIntegerField(default=0)
    errored = models.PositiveIntegerField(default=0)
    canceled = models.PositiveIntegerField(default=0)
    expired = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("-created_at", "-id")
        verbose_name_plural = "batches"
        indexes = [
            models.Index(fields=["organization", "-created_at", "-id"], name="batch_of_organization"),
            models.Index(fields=["-created_at", "-id"], name="batch_by_time"),
            models.Index(fields=["created_at"], name="open_batch", condition=Q(ended_at=None)),
            models.Index(fields=["created_at"], name="batch_with_results", condition=Q(archived_at=None)),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def status(self) -> Status:
        if self.ended_at is not None:
            return "ended"
        return "in_progress" if self.cancel_initiated_at is None else "canceling"

    @property
    def total(self) -> int:
        """How many requests it has."""
        return self.processing + self.succeeded + self.errored + self.canceled + self.expired


class _Part(models.Model):
    """What a request and its result share. `id` is that of its message, fixed before there is any."""

    id = models.CharField(primary_key=True, max_length=40)
    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, db_index=False, related_name="+")
    number = models.PositiveIntegerField()  # within the batch, from 0
    custom_id = models.CharField(max_length=64)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.id


class BatchRequest(_Part):
    """A request that has not ended. Whether it waits or runs, Redis knows."""

    params = models.BinaryField()  # as they came: JSON, in UTF-8

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "number"], name="one_request_each")]


class BatchResult(_Part):
    """The result of a request."""

    kind = models.CharField(max_length=10, choices=[(kind, kind) for kind in KINDS])
    body = models.TextField()  # as it is told: JSON, in ASCII

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "number"], name="one_result_each")]
