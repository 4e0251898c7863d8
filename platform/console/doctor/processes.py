"""The processes that should be running: gateways, workers, Celery."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

from celery import current_app
from django.conf import settings
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from common.redis import connection
from console.doctor.findings import Finding, fail, ok, warn
from inference.models import missing_files
from inference.protocol import keys

FRESH_S = 5.0  # they tell of themselves each second
REPLY_S = 1.0
TICK = "records.tasks.store_records"  # beat sends it each second
TICKS_S, LOOK_S = 2.5, 0.5

START = "`manage.py serve` runs one"


def gateways_and_workers() -> Iterator[Finding]:
    """Look who was heard of lately, by the clock of Redis."""
    client = connection()
    seconds, micros = client.time()
    now = seconds + micros / 1e6
    yield _heard("gateways", cast(dict[bytes, bytes], client.hgetall(keys.GATEWAYS)), now, f"{START}.")
    workers = cast(dict[bytes, bytes], client.hgetall(keys.WORKERS))
    yield _heard("workers", workers, now, f"{START}, and so does `python -m inference`; its log says what stops it.")
    yield from _models(workers, now)


def _heard(name: str, heartbeats: Mapping[bytes, bytes], now: float, advice: str) -> Finding:
    ages = {who.decode(): now - seen for who, raw in heartbeats.items() if (seen := _seen_at(raw)) is not None}
    fresh = sorted(who for who, age in ages.items() if age < FRESH_S)
    if fresh:
        return ok(name, f"{len(fresh)}: {', '.join(fresh[:4])}{', …' if len(fresh) > 4 else ''}")
    lately = f" The last was heard of {min(ages.values()):,.0f} s ago." if ages else ""
    return fail(name, f"None runs.{lately}", advice)


def _models(workers: Mapping[bytes, bytes], now: float) -> Iterator[Finding]:
    """Look whether gateways here can tokenise for what is served."""
    fresh = (raw for raw in workers.values() if now - (_seen_at(raw) or 0.0) < FRESH_S)
    for name in sorted({str(json.loads(raw).get("model", "")) for raw in fresh}):
        folder = settings.SLUICE.models_path / name
        if name != settings.SLUICE.model and "tokenizer.json" in missing_files(folder):
            yield warn(
                "served model", f"Workers serve {name}, which is not at {folder}.", "Gateways here need it as well."
            )


def _seen_at(raw: bytes) -> float | None:
    try:
        return float(json.loads(raw)["seen_at"])
    except (ValueError, KeyError, TypeError):
        return None


def celery() -> Iterator[Finding]:
    """Look whether Celery's worker answers, and whether beat gives it work."""
    try:
        before = _accepted()
        if before is None:
            yield fail("celery worker", "None answers: records wait, limits and batches stand still.", f"{START}.")
            yield warn("celery beat", "Nobody can tell while no worker runs.", f"{START}.")
            return
        yield ok("celery worker", "answers")
        yield _beat(before)
    except (RedisError, KombuError, OSError) as error:
        yield fail("celery worker", f"Its broker does not answer: {error}", "Look at SLUICE_BROKER_URL.")


def _beat(before: int) -> Finding:
    give_up = time.monotonic() + TICKS_S
    while time.monotonic() < give_up:
        time.sleep(LOOK_S)  # there is nothing to wait on: beat tells nobody that it lives
        if (_accepted() or 0) > before:
            return ok("celery beat", "sends its tasks")
    return fail("celery beat", "It sends no tasks: records wait, limits are not reconciled.", f"{START}.")


def _accepted() -> int | None:
    """Return how many ticks of beat the workers have taken, None where no worker answers."""
    replies: dict[str, Any] | None = current_app.control.inspect(timeout=REPLY_S).stats()
    return None if not replies else sum(about["total"].get(TICK, 0) for about in replies.values())
