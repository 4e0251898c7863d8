"""`manage.py loadtest`: load on a server, and whether its clients were served as promised."""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from common.database import migrate_when_empty
from config.demo import demo_key
from config.loadtest.arrivals import Closed, Load, Poisson, Ramp
from config.loadtest.plan import (
    PROMPT,
    Plan,
    header_value,
    is_local,
    positive,
    ramp,
    share,
    url,
    whole_number,
    words,
)
from config.loadtest.progress import show
from config.loadtest.report import as_json, as_table
from config.loadtest.results import results_of
from config.loadtest.run import LoadTest

CONCURRENCY, REQUESTS, RAMP_S = 8, 100, 30.0
INTERRUPTED = 130


class Command(BaseCommand):
    """Be many clients at once."""

    help = "Load a server with streaming requests and report TTFT, TPOT, TBT, goodput and errors against the targets."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--url", type=url, default="http://127.0.0.1:8000", help="the server (http://127.0.0.1:8000)")
        add("--key", type=header_value, help="API key; without one, the demo key of a server on this machine")
        add("--model", type=words, default="default", help="model to ask (default)")
        load = parser.add_mutually_exclusive_group()
        load.add_argument(
            "--concurrency", type=whole_number(1), metavar="N", help=f"clients that ask again ({CONCURRENCY})"
        )
        load.add_argument("--rate", type=positive, metavar="R", help="requests a second, arriving at random (Poisson)")
        load.add_argument(
            "--ramp", type=ramp, metavar="FROM:TO", help=f"the same at a growing rate, over --duration ({RAMP_S:g})"
        )
        size = parser.add_mutually_exclusive_group()
        size.add_argument("--requests", type=whole_number(1), metavar="N", help=f"end after so many ({REQUESTS})")
        size.add_argument("--duration", type=positive, metavar="S", help="begin none after so many seconds")
        add("--max-tokens", type=whole_number(1), default=64, metavar="N", help="of each answer (64)")
        add("--prompt", type=words, default=PROMPT, help="what to ask")
        add("--unique", action="store_true", help="number the prompts, so that none is a repeat")
        add("--cancel-rate", type=share, default=0.0, metavar="P", help="share of clients that leave early (0)")
        add("--slow-rate", type=share, default=0.0, metavar="P", help="share of clients that read slowly (0)")
        add("--timeout", type=positive, default=120.0, metavar="S", help="a request that takes longer failed (120)")
        add("--seed", type=whole_number(0), default=0, metavar="N", help="of arrivals and behaviour (0)")
        add("--json", action="store_true", help="print one JSON object instead of the table")
        add("--check", action="store_true", help="exit with status 1 when a target is missed")

    def handle(self, *args: Any, **options: Any) -> None:
        plan = plan_of(options, options["key"] or local_key(options["url"]))
        connections.close_all()
        test = LoadTest(plan)
        try:
            whole = asyncio.run(carry_out(test))
        except OSError as error:
            raise CommandError(f"--url: cannot find {plan.url}: {error.strerror}.") from None
        results = results_of(test.traces, plan, begun=test.begun, wall_s=test.took_s)
        self.stdout.write(as_json(results, plan) if options["json"] else as_table(results, plan))
        if not whole:
            sys.exit(INTERRUPTED)
        if options["check"] and not results.met:
            sys.exit(1)


def plan_of(options: dict[str, Any], key: str) -> Plan:
    load = load_of(options)
    requests, duration = options["requests"], options["duration"]
    if isinstance(load, Ramp):
        if requests is not None:
            raise CommandError("--requests: a ramp ends by time; expected --duration instead.")
        duration = duration or RAMP_S
    elif requests is None and duration is None:
        requests = REQUESTS
    return Plan(
        url=options["url"],
        key=key,
        load=load,
        requests=requests,
        duration_s=duration,
        model=options["model"],
        prompt=options["prompt"],
        unique=options["unique"],
        max_tokens=options["max_tokens"],
        cancel_rate=options["cancel_rate"],
        slow_rate=options["slow_rate"],
        timeout_s=options["timeout"],
        seed=options["seed"],
    )


def load_of(options: dict[str, Any]) -> Load:
    if options["ramp"] is not None:
        assert isinstance(options["ramp"], Ramp)
        return options["ramp"]
    if options["rate"] is not None:
        return Poisson(options["rate"])
    return Closed(options["concurrency"] or CONCURRENCY)


def local_key(address: str) -> str:
    """Return the demo key of this machine's server; nobody else's server knows it."""
    if not is_local(address):
        raise CommandError(f"--key: expected an API key of {address}.")
    migrate_when_empty()
    return demo_key(settings.SLUICE.home_path / "demo.key")


async def carry_out(test: LoadTest) -> bool:
    """Run the test; say whether to its end, or to a Ctrl-C, after which what was measured still counts."""
    work = asyncio.create_task(test.run())
    bar = asyncio.create_task(show(test, sys.stderr))
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        return False
    finally:
        bar.cancel()
        await asyncio.wait([bar])
    return True
