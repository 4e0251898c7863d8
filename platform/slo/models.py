"""What is kept of each step of time. Starts are seconds since the epoch; sums are JSON, in the form of `slo.sums`."""

from __future__ import annotations

from django.db import models


class Rollup(models.Model):
    """What was counted in a step of one model and one organisation; an empty name means all of them."""

    step_s = models.PositiveIntegerField()
    start = models.BigIntegerField()
    model = models.CharField(max_length=200, blank=True)
    organization = models.CharField(max_length=40, blank=True)  # its id, which may be of one that is deleted
    sums = models.TextField()

    class Meta:
        constraints = [
            # In the order in which a window is read.
            models.UniqueConstraint(fields=["step_s", "model", "organization", "start"], name="one_rollup_each"),
        ]
        indexes = [models.Index(fields=["step_s", "start"], name="rollup_by_time")]

    def __str__(self) -> str:
        return f"{self.start} + {self.step_s} s: {self.model or 'all'}, {self.organization or 'all'}"


class Load(models.Model):
    """What was seen in a step of one worker, of one model's queue, or of all gateways together."""

    WORKER, QUEUE, GATEWAYS = "worker", "queue", "gateways"

    step_s = models.PositiveIntegerField()
    start = models.BigIntegerField()
    kind = models.CharField(max_length=10, choices=[(kind, kind) for kind in (WORKER, QUEUE, GATEWAYS)])
    name = models.CharField(max_length=200, blank=True)  # of a worker
    model = models.CharField(max_length=200, blank=True)  # of a worker or a queue
    device = models.CharField(max_length=200, blank=True)
    gauges = models.TextField()

    class Meta:
        verbose_name_plural = "load"
        constraints = [
            models.UniqueConstraint(fields=["step_s", "start", "kind", "name", "model"], name="one_load_each")
        ]

    def __str__(self) -> str:
        return f"{self.start} + {self.step_s} s: {self.kind} {self.name} {self.model}"
