"""`manage.py drain ID … | --all-workers`: have processes end without losing a stream."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import CommandError

from console.management.redis_command import RedisCommand
from console.processes.draining import CannotDrain, ask, wait_for
from console.processes.running import Process, Running, look

MARGIN_S = 10.0  # to see the request, and to end


class Command(RedisCommand):
    """Drain workers and gateways."""

    help = (
        "Ask processes to take no more work, let what they have go on for at most SLUICE_DRAIN_S, and end. Another "
        "worker continues what is left of a worker; readers of a gateway come back to another. `serve` does not start "
        "a drained process again; it does so when it is started anew."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("processes", nargs="*", metavar="ID", help="as the console's page of workers lists them")
        parser.add_argument("--all-workers", action="store_true", help="all workers that run")
        parser.add_argument("--wait", action="store_true", help="until they have ended; exit status 1 if one does not")

    def act(self, client: redis.Redis, **options: Any) -> None:
        if bool(options["processes"]) == options["all_workers"]:
            raise CommandError("Expected the ids of processes, or --all-workers.")
        chosen = _chosen(look(client), options["processes"], options["all_workers"])
        try:
            for process in chosen:
                ask(client, process)
                self.stdout.write(f"{process.id} is asked to drain.")
        except CannotDrain as error:
            raise CommandError(str(error)) from None
        if options["wait"]:
            self._wait(client, chosen)

    def _wait(self, client: redis.Redis, chosen: Sequence[Process]) -> None:
        left = wait_for(client, chosen, settings.SLUICE.drain_s + MARGIN_S)
        for name in left.silent:
            self.stdout.write(f"{name} fell silent without leaving: it died, or hangs.")
        if left.running:
            raise CommandError(f"Still there: {', '.join(left.running)}.")
        if not left.silent:
            self.stdout.write("Drained." if len(chosen) == 1 else f"All {len(chosen)} drained.")


def _chosen(running: Running, ids: Sequence[str], all_workers: bool) -> list[Process]:
    if all_workers:
        found = [worker for worker in running.workers if worker.fresh]
        if not found:
            raise CommandError("No worker runs.")
        return found
    known = {process.id: process for process in (*running.workers, *running.gateways)}
    if unknown := [id for id in ids if id not in known]:
        there = ", ".join(process.id for process in running.alive) or "none"
        raise CommandError(f"There is no process {', '.join(unknown)}. Those that run: {there}.")
    return [known[id] for id in dict.fromkeys(ids)]
