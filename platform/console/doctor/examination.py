"""All that the doctor looks at, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from console.doctor import folders, installation, machine, processes, stores
from console.doctor.findings import Finding, fail, warn

Look = Callable[[], Iterator[Finding]]

BEFORE: tuple[Look, ...] = (
    installation.python,
    installation.packages,
    installation.configuration,
    installation.secret_key,
    folders.home,
    folders.disk,
    machine.open_files,
    folders.model,
    machine.for_workers,
    stores.database,
)
BY_REDIS: tuple[Look, ...] = (
    stores.redis_server,
    stores.waiting_reports,
    processes.gateways_and_workers,
    processes.celery,
)


def examine() -> Iterator[Finding]:
    """Look at everything, one thing after the other."""
    for look in BEFORE:
        yield from look()
    fault = stores.redis_answers()
    if fault:
        yield fail("redis", f"It does not answer: {fault}", "Run: manage.py serve, or see to REDIS_URL and its server.")
        yield warn("processes", "Nobody can tell which run while Redis does not answer.", "See to Redis first.")
        return
    for look in BY_REDIS:
        yield from look()
