"""`manage.py serve`: the whole product in one terminal."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from common.database import bring_database
from common.redis_check import check_redis
from config import embedded_redis, fetching
from config.demo import curl_line, demo_key
from config.embedded_redis import EmbeddedRedis, EmbeddedRedisError
from config.output import Output
from config.programs import Choices, environment_of, redis_program, service_programs
from config.readiness import ask, complain_of_port, url_of
from config.supervisor import QUICK_DEATHS, Child, Supervisor

PATIENCE_S = 60.0  # how often we say what we still wait for


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of option values."""

    def read(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise ArgumentTypeError(f"expected a whole number from {least} to {most}, not {text!r}")
        return int(text)

    return read


class Command(BaseCommand):
    """Run all of Sluice until Ctrl-C."""

    help = "Run gateways, workers, Celery and (unless REDIS_URL is set) an embedded Redis in one terminal."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        parser.add_argument("--port", type=whole_number(1, 65535), default=8000, help="port of all gateways (8000)")
        parser.add_argument("--gateways", type=whole_number(1, 64), default=1, metavar="N", help="gateways (1)")
        parser.add_argument("--workers", type=whole_number(0, 64), default=1, metavar="N", help="workers (1)")
        parser.add_argument("--engine", choices=("transformers", "vllm", "simulated"), help="what runs the model")
        parser.add_argument("--model", metavar="NAME", help="model to serve, a folder in SLUICE_MODELS")
        parser.add_argument("--quantize", choices=("none", "int8"), help="round the weights (SLUICE_QUANTIZE)")
        parser.add_argument("--demo", action="store_true", help="make a key once, and print it with a first request")

    def handle(self, *args: Any, **options: Any) -> None:
        choices = Choices(
            host=options["host"],
            port=options["port"],
            gateways=options["gateways"],
            workers=options["workers"],
            engine=options["engine"] or settings.SLUICE.engine,
            model=options["model"] or settings.SLUICE.model,
            quantize=options["quantize"] or settings.SLUICE.quantize,
        )
        check_port(choices)
        doubt = check_redis(settings.SLUICE.redis_url) if settings.SLUICE.redis_url else None
        if doubt:
            self.stderr.write(f"Warning: {doubt}")
        bring_model(choices)
        bring_database()
        key = demo_key(settings.SLUICE.home_path / "demo.key") if options["demo"] else None
        connections.close_all()
        asyncio.run(serve(choices, key))


def check_port(choices: Choices) -> None:
    complaint = complain_of_port(choices.host, choices.port)
    if complaint:
        raise CommandError(
            f"Cannot listen on {choices.host} port {choices.port}: {complaint}. "
            "Stop what listens there, or choose another with --port."
        )


def bring_model(choices: Choices) -> None:
    """Fetch the default model where it is the one to serve and missing (every engine needs the tokenizer)."""
    status = fetching.fetch(settings.SLUICE, "--if-missing", choices.model)
    if status:
        sys.exit(status)  # what went wrong is on the screen already


async def serve(choices: Choices, key: str | None) -> None:
    """Run everything until SIGINT or SIGTERM."""
    output = Output(sys.stdout)
    embedded = prepare_redis()
    try:
        async with Supervisor(output) as supervisor:
            if embedded:
                child = supervisor.start(redis_program(embedded))
                await supervisor.unless_stopped(redis_answers(embedded, child))
            if not supervisor.stopping.is_set():
                redis_url = embedded.url if embedded else settings.SLUICE.redis_url
                environment = environment_of(settings.SLUICE, choices, redis_url)
                for program in service_programs(settings.SLUICE, choices, environment):
                    supervisor.start(program)
                await supervisor.unless_stopped(announce(choices, key, output))
                await supervisor.stopping.wait()
    finally:
        if embedded:
            embedded.forget()


def prepare_redis() -> EmbeddedRedis | None:
    """Return the embedded Redis, None where REDIS_URL names another."""
    if settings.SLUICE.redis_url:
        return None
    try:
        return embedded_redis.prepare(settings.SLUICE.home_path)
    except EmbeddedRedisError as error:
        raise CommandError(str(error)) from None


async def redis_answers(embedded: EmbeddedRedis, child: Child) -> None:
    """Wait for the embedded Redis, however much it has to load, unless it cannot run at all."""
    answer = asyncio.create_task(embedded_redis.until_it_answers(embedded.url))
    try:
        while not answer.done():
            if child.quick_deaths >= QUICK_DEATHS:
                raise CommandError(f"The embedded Redis does not run; its lines above say why. See {embedded.folder}.")
            await asyncio.wait({answer}, timeout=0.2)
    finally:
        answer.cancel()


async def announce(choices: Choices, key: str | None, output: Output) -> None:
    """Print the URL once a gateway says that it is ready."""
    loop = asyncio.get_running_loop()
    remind_at = loop.time() + PATIENCE_S
    while True:
        status, body = await ask(choices.host, choices.port, "/readyz")
        if status == 200:
            break
        if loop.time() > remind_at:
            remind_at += PATIENCE_S
            output.line("serve", f"still waiting: /readyz says {f'{status} {body}' if status else 'nothing'}")
        await asyncio.sleep(0.1)
    output.bare(banner(url_of(choices.host, choices.port), key))


def banner(url: str, key: str | None) -> str:
    ready = f"\nSluice is ready at {url}\n"
    return f"{ready}Demo key: {key}\nTry it:\n\n{curl_line(url, key)}\n" if key else ready
