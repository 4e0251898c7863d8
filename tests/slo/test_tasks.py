"""Celery's part, and what is kept for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis
from django.conf import settings
from django.test import override_settings

from inference.protocol.minutes import ANSWERS, GOOD
from slo.models import Load, Rollup
from slo.pruning import prune
from slo.tasks import prune as prune_task
from slo.tasks import roll_up, sample
from slo.windows import DAY_S, HOUR_S, MINUTE_S, QUARTER_S, STEPS_S, THREE_HOURS_S
from tests.slo.conftest import Counting

pytestmark = pytest.mark.django_db

NOW = 20_000 * DAY_S


def test_it_works(counting: Counting) -> None:
    counting.of().add(ANSWERS, GOOD)
    counting.send()
    roll_up()
    sample()
    prune_task()
    assert Rollup.objects.filter(model="m", organization="o").count() == len(STEPS_S)
    assert Load.objects.filter(kind=Load.GATEWAYS).count() == len(STEPS_S)


def test_they_run_again_and_again(store: redis.Redis) -> None:
    rows = settings.CELERY_BEAT_SCHEDULE
    assert {row["task"] for row in rows.values()} >= {"slo.tasks.roll_up", "slo.tasks.sample", "slo.tasks.prune"}


@pytest.mark.parametrize(("keep_days", "days_left"), [(30, 31), (0, 40)])
def test_finer_steps_go_sooner(keep_days: int, days_left: int) -> None:
    for days in range(40):
        for step_s in STEPS_S:
            start = NOW - days * DAY_S
            Rollup.objects.create(step_s=step_s, start=start, sums="{}")
            Load.objects.create(step_s=step_s, start=start, kind=Load.GATEWAYS, gauges="{}")
    with override_settings(SLUICE=replace(settings.SLUICE, records_keep_days=keep_days)):
        prune(now=NOW, for_s=20)
    for table in (Rollup, Load):
        left = {step_s: table.objects.filter(step_s=step_s).count() for step_s in STEPS_S}
        assert left == {MINUTE_S: 4, QUARTER_S: 5, HOUR_S: 9, THREE_HOURS_S: days_left}
