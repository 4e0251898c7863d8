"""What it costs to let a request in: who asks, is it valid, its tokens, the limits of its key, the way into the queue.

    .venv/bin/python benchmarks/admission.py                     half a minute
    .venv/bin/python benchmarks/admission.py --requests 500      to see that it works
    .venv/bin/python benchmarks/admission.py --profile           where the time goes, function by function

Calls the gateway's own steps in this process, on a Redis of its own and an SQLite database in a temporary home (the
model's tokenizer comes from `var/models`); nothing is generated. The times of the parts are the stage times that the
product keeps of each request: `auth` reads a key that is known, `validation` reads the body and finds the model,
`tokenizing` makes token ids of the conversation, `admission` is one round trip to Redis with one script, or nothing
for a key without limits, `enqueue` asks for the announcements, opens the log and queues the request in one more. What
Redis itself takes for admission and its account is from its own statistics, without any network. Prints Markdown.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway import machine
from processes import HERE, MODEL, environment_in, model_folder

sys.path.remove(str(HERE))  # files here have the names of some of our packages

if TYPE_CHECKING:
    from inference.protocol.requests import GenerationRequest
    from streaming.endpoint import Call
    from streaming.gateway import Gateway

STAGES = ("auth", "validation", "tokenizing", "admission", "enqueue")
WORDS = (50, 500)  # of the user's turn
AT_ONCE = 32
ROUNDS = 3
PLENTY = 10**11


@dataclass(kw_only=True)
class Figures:
    """One kind of key and prompt: a request's stage times in ms, and how many were let in per second."""

    stages: list[dict[str, float]] = field(default_factory=list)
    per_s: float = 0.0
    redis_us: dict[str, float] = field(default_factory=dict)  # by script, of Redis' own time

    def us(self, stage: str, q: float) -> float:
        found = sorted(stages[f"{stage}_ms"] * 1000 for stages in self.stages)
        return found[min(len(found) - 1, int(q * len(found)))]

    def total_us(self, q: float) -> float:
        found = sorted(sum(stages.values()) * 1000 for stages in self.stages)
        return found[min(len(found) - 1, int(q * len(found)))]


@contextmanager
def platform(folder: Path) -> Iterator[None]:
    """Set Django up on a database and a Redis in a folder."""
    os.environ.update(environment_in(folder) | {"DJANGO_SETTINGS_MODULE": "config.settings"})
    import django

    django.setup()
    from django.conf import settings

    from common.database import migrate_when_empty
    from config.embedded_redis import prepare, until_it_answers
    from safety.publishing import publish

    migrate_when_empty()
    server = prepare(settings.SLUICE.home_path)
    process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL, pass_fds=(server.lock,))
    try:
        asyncio.run(asyncio.wait_for(until_it_answers(server.url), 20))
        publish()
        yield
    finally:
        process.terminate()
        process.wait(10)
        server.forget()


def make_keys() -> dict[str, str]:
    """Make keys of each kind; return them in plain."""
    from accounts.keys import create_key
    from accounts.models import Organization
    from accounts.terms import LIMITS

    all_limits: dict[str, Any] = dict.fromkeys(LIMITS, PLENTY)
    found = {
        "no limits": create_key(name="free", organization="free")[1],
        "one limit": create_key(name="one", organization="one", rpm=PLENTY)[1],
        "all limits": create_key(name="all", organization="all", **all_limits)[1],
        "all limits, and the organisation's": create_key(name="both", organization="both", **all_limits)[1],
    }
    Organization.objects.filter(name="both").update(**all_limits)
    return found


class Benchmark:
    """A gateway and what it is asked."""

    def __init__(self, gateway: Gateway, requests: int) -> None:
        self._gateway, self._requests, self._redis = gateway, requests, gateway._redis
        self._admitted: list[GenerationRequest] = []

    async def measure(self, key: str, words: int) -> Figures:
        """Let requests in, one after the other, then many at once."""
        body = {"model": "default", "max_tokens": 256, "stream": True}
        text = " ".join(f"lighthouse{i % 7}" if i % 5 == 0 else "keeper" for i in range(words))
        raw = json.dumps(body | {"messages": [{"role": "user", "content": text}]}).encode()
        from quotas.admission import give_back

        figures = Figures()
        await self._let_in(key, raw, 100, 1, Figures())
        for _ in range(ROUNDS):
            await self._redis.config_resetstat()
            await self._let_in(key, raw, self._requests, 1, figures)
            begun = time.perf_counter()
            await self._let_in(key, raw, self._requests, AT_ONCE, Figures())
            figures.per_s = max(figures.per_s, self._requests / (time.perf_counter() - begun))
            await self._forget_queue()
            await self._redis.config_resetstat()
            others = await self._admit_alone(key)
            figures.redis_us |= {"admit": await self._script_us()}
            for message_id in others:
                await give_back(self._gateway.log.run, self._admitted[0].organization, message_id)
            await self._redis.config_resetstat()
            await self._account()
            figures.redis_us |= {"account": await self._script_us()}
        return figures

    async def _let_in(self, key: str, raw: bytes, count: int, at_once: int, figures: Figures) -> None:
        left = iter(range(count))

        async def client() -> None:
            for _ in left:
                figures.stages.append(await self._one(self._call(key), raw))

        async with asyncio.TaskGroup() as clients:
            for _ in range(at_once):
                clients.create_task(client())

    async def _one(self, call: Call, raw: bytes) -> dict[str, float]:
        from streaming.entry import accepting, enter
        from streaming.surfaces.anthropic import wanted
        from streaming.surfaces.messages_body import parse_messages
        from streaming.timing import Stopwatch

        watch = Stopwatch()
        caller = await self._gateway.authenticator.authenticate(call.scope, needs="inference")
        watch.stage("auth")
        asked = wanted(parse_messages(raw))
        async with accepting(call, asked, caller, watch, raw=raw, idempotency_key="") as accepted:
            # As `streaming.session.reading` does it.
            async with self._gateway.announcements.subscribe(accepted.id, limit=1000):
                await enter(call, accepted, read=True)
                watch.stage("enqueue")
            self._admitted.append(accepted.request)
        return watch.stages

    def _call(self, key: str) -> Call:
        from streaming.endpoint import Call

        scope = {"type": "http", "path": "/v1/messages", "method": "POST", "headers": [(b"x-api-key", key.encode())]}
        return Call(self._gateway, scope, _nothing, _nothing)

    async def _account(self) -> None:
        """Account for what was let in as a worker would."""
        from inference.protocol.quotas import accounting
        from inference.protocol.reports import Settlement, common_of

        for request in self._admitted:
            settlement = Settlement(
                **common_of(request), outcome="max_tokens", output_tokens=256, attempts=1, worker="w",
                finished_at=time.time(), queue_ms=0.0, generation_ms=0.0,
            )  # fmt: skip
            await self._gateway.log.run(*accounting(settlement, pen=1))
        self._admitted.clear()

    async def _admit_alone(self, key: str) -> list[str]:
        """Admit as many others, without anything else; return their ids, none for a key without limits."""
        from quotas.admission import admit, limited
        from quotas.headers import anthropic_headers

        caller = await self._gateway.authenticator.authenticate(self._call(key).scope, needs="inference")
        admitted = self._admitted if limited(caller) else []
        for request in admitted:
            await admit(
                self._gateway.log.run, caller, message_id=f"{request.id}a", input_tokens=len(request.prompt_ids),
                max_tokens=256, created_at=request.created_at, lease_ms=3_600_000, form=anthropic_headers,
                note=lambda standing: None,
            )  # fmt: skip
        return [f"{request.id}a" for request in admitted]

    async def _forget_queue(self) -> None:
        """Take everything away that waits for a worker, or is there for its readers."""
        from inference.protocol import keys

        await self._redis.unlink(*(name(MODEL) for name in (keys.ready, keys.payloads, keys.wake)), keys.LOGS)
        for request in self._admitted:
            await self._redis.unlink(*(name(request.id) for name in (keys.log, keys.meta, keys.owner)))

    async def _script_us(self) -> float:
        stats = await self._redis.info("commandstats")
        return float(stats.get("cmdstat_evalsha", {}).get("usec_per_call", 0.0))


async def _nothing(*_: Any) -> Any:
    raise AssertionError("nothing is sent or received here")


async def run(requests: int) -> list[str]:
    """Measure all kinds; return Markdown."""
    from django.conf import settings

    from streaming.gateway import Gateway

    # Nobody takes anything from this queue, nor looks after the logs.
    gateway = Gateway(replace(settings.SLUICE, queue_limit=10**9, event_log_max_mb=10**6, queue_timeout_s=3600.0))
    about = {"model": MODEL, "context_length": 8192, "started_at": 1.0, "seen_at": time.time() + 3600}
    await gateway._redis.hset("sluice:workers", "w", json.dumps(about))
    await gateway._redis.sadd("sluice:models", MODEL)
    await gateway.started()
    benchmark = Benchmark(gateway, requests)
    lines = [
        f"{machine()}, one gateway, {requests} requests in each of {ROUNDS} rounds\n",
        "| key | prompt, words | auth | validation | tokenizing | admission | enqueue | all p50 | all p99 "
        "| requests/s, 32 at once | Redis' own time: admit, account |",
        f"|{' --- |' * 11}",
    ]
    for kind, key in (await asyncio.to_thread(make_keys)).items():
        for words in WORDS:
            print(f"{kind}, {words} words …", file=sys.stderr, flush=True)
            lines.append(_row(kind, words, await benchmark.measure(key, words)))
    lines += ["", "Times in µs, those of the parts at the median."]
    await gateway.close()
    return lines


def _row(kind: str, words: int, figures: Figures) -> str:
    cells = [kind, f"{words:,}", *(f"{figures.us(stage, 0.5):,.0f}" for stage in STAGES)]
    cells += [f"{figures.total_us(0.5):,.0f}", f"{figures.total_us(0.99):,.0f}", f"{figures.per_s:,.0f}"]
    cells.append(", ".join(f"{us:.0f}" for us in figures.redis_us.values()))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="requests of a round (2000)")
    parser.add_argument("--profile", action="store_true", help="print the functions that take most, too")
    options = parser.parse_args()
    model_folder(MODEL)
    profile = cProfile.Profile(time.process_time)  # of this process, whatever else runs
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder, platform(Path(folder)):
        if options.profile:
            profile.enable()
        lines = asyncio.run(run(options.requests))
        profile.disable()
    print("\n".join(lines))
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
