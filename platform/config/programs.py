"""The programs that `serve` runs, in the order in which they are stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from config.embedded_redis import EmbeddedRedis
from config.supervisor import Program
from inference.protocol.settings import ROOT, Settings

GATEWAYS, WORKERS, CELERY, REDIS = range(4)
AFTER_DRAIN_S = 5.0  # what a gateway gets on top of its own budget


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the command line of `serve` decides."""

    host: str
    port: int
    gateways: int
    workers: int
    engine: str
    model: str
    quantize: str


def environment_of(settings: Settings, choices: Choices, redis_url: str) -> dict[str, str]:
    """Return the environment of all children, with nothing left for them to guess."""
    return dict(os.environ) | {
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONUNBUFFERED": "1",
        "REDIS_URL": redis_url,
        "SLUICE_ENGINE": choices.engine,
        "SLUICE_HOME": str(settings.home_path),
        "SLUICE_MODEL": choices.model,
        "SLUICE_MODELS": str(settings.models_path),
        "SLUICE_QUANTIZE": choices.quantize,
    }


def redis_program(embedded: EmbeddedRedis) -> Program:
    return Program(
        name="redis",
        command=embedded.command,
        environment=dict(os.environ),
        stage=REDIS,
        hint=f"Its files are in {embedded.folder}.",
        pass_fds=(embedded.lock,),
    )


def service_programs(settings: Settings, choices: Choices, environment: Mapping[str, str]) -> list[Program]:
    """Return gateways, workers, and Celery's worker and beat."""
    return [
        *(_gateway(settings, choices, environment, n) for n in range(1, choices.gateways + 1)),
        *(_worker(choices, environment, n) for n in range(1, choices.workers + 1)),
        # Celery's `--beat` would fork a process below the worker, which nobody could stop in order.
        # Mingling asks the other workers and waits a second for answers; we have one. Seven tasks may last: that which
        # runs batches, three that prune, one that archives, one that is there for whoever watches streams, one that
        # rolls up what waited for the database. What comes each second is not to wait for them.
        _celery(
            "celery", settings, environment, "worker", "--pool", "threads", "--concurrency", "9", "--without-mingle"
        ),
        _celery("beat", settings, environment, "beat", "--schedule", str(settings.home_path / "celerybeat-schedule")),
    ]


def _gateway(settings: Settings, choices: Choices, environment: Mapping[str, str], number: int) -> Program:
    address = ("--host", choices.host, "--port", str(choices.port))
    return Program(
        name=f"gateway-{number}",
        command=(sys.executable, str(ROOT / "manage.py"), "gateway", *address),
        environment=environment,
        stage=GATEWAYS,
        grace_s=settings.drain_s + AFTER_DRAIN_S,
    )


def _worker(choices: Choices, environment: Mapping[str, str], number: int) -> Program:
    return Program(
        name=f"worker-{number}",
        command=(sys.executable, "-m", "inference"),
        environment=environment,
        stage=WORKERS,
        hint=f"Its last lines above say why. It was to serve {choices.model} with the {choices.engine} engine.",
    )


def _celery(name: str, settings: Settings, environment: Mapping[str, str], *arguments: str) -> Program:
    level = "WARNING" if settings.log_level == "INFO" else settings.log_level  # at INFO it tells of every task
    command = (sys.executable, "-m", "celery", "--quiet", "-A", "config", *arguments, "--loglevel", level)
    return Program(name=name, command=command, environment=environment, stage=CELERY)
