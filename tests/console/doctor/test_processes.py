"""Gateways, workers, Celery."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
import redis
from django.conf import settings
from kombu.exceptions import OperationalError

from console.doctor import processes
from inference.protocol import keys, scripts


def beat(store: redis.Redis, name: str, who: str, **about: Any) -> None:
    store.eval(scripts.BEAT, 1, name, who, json.dumps({"x": 1} | about))


class TestGatewaysAndWorkers:
    def test_it_works(self, store: redis.Redis) -> None:
        beat(store, keys.GATEWAYS, "g-1")
        beat(store, keys.WORKERS, "w-1", model=settings.SLUICE.model)
        gateways, workers = processes.gateways_and_workers()
        assert (gateways.status, gateways.text) == ("ok", "1: g-1")
        assert (workers.status, workers.text) == ("ok", "1: w-1")

    def test_none_fails(self, store: redis.Redis) -> None:
        assert [finding.status for finding in processes.gateways_and_workers()] == ["fail", "fail"]

    def test_one_that_is_silent_counts_as_none(self, store: redis.Redis) -> None:
        store.hset(keys.WORKERS, "w-1", json.dumps({"seen_at": store.time()[0] - 100, "model": "gone"}))
        store.hset(keys.WORKERS, "w-2", "not even JSON")
        _, workers = processes.gateways_and_workers()
        assert workers.status == "fail"
        assert re.search(r"10[0-2] s ago", workers.text)

    def test_a_model_that_gateways_here_lack_is_told_of(self, store: redis.Redis) -> None:
        beat(store, keys.GATEWAYS, "g-1")
        beat(store, keys.WORKERS, "w-1", model="elsewhere")
        *_, found = processes.gateways_and_workers()
        assert (found.name, found.status) == ("served model", "warn")


class TestCelery:
    @pytest.fixture(autouse=True)
    def hasty(self) -> Iterator[None]:
        with patch.object(processes, "TICKS_S", 0.05), patch.object(processes, "LOOK_S", 0.01):
            yield

    @pytest.mark.parametrize(
        ("counts", "statuses"),
        [([3, 4], ["ok", "ok"]), ([3, 3, 5], ["ok", "ok"]), ([3] * 50, ["ok", "fail"]), ([None], ["fail", "warn"])],
    )
    def test_beat_is_known_by_what_the_worker_takes(self, counts: list[int | None], statuses: list[str]) -> None:
        with patch.object(processes, "_accepted", side_effect=counts):
            assert [finding.status for finding in processes.celery()] == statuses

    @pytest.mark.parametrize("error", [redis.ConnectionError("gone"), OperationalError("gone")])
    def test_a_broker_that_is_away_fails(self, error: Exception) -> None:
        with patch.object(processes, "_accepted", side_effect=error):
            (found,) = processes.celery()
        assert (found.status, found.text) == ("fail", "Its broker does not answer: gone")

    def test_nobody_answers_where_nobody_is(self, store: redis.Redis) -> None:
        with patch.object(processes, "REPLY_S", 0.05):
            assert [finding.status for finding in processes.celery()] == ["fail", "warn"]
