"""The page of workers and gateways, and the one that asks before a drain."""

from __future__ import annotations

from datetime import UTC, datetime

import redis
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from common.redis import connection
from console import audit
from console.pages import page, staff_page
from console.processes import database
from console.processes.draining import CannotDrain, ask, check
from console.processes.running import Process, Running, look

REFRESH_S = 3
TITLE = "Workers and gateways"


@staff_page("console.view_processes")
@require_safe
def show_processes(request: HttpRequest) -> HttpResponseBase:
    """Show what runs."""
    shown = {"refresh_s": REFRESH_S, "at": datetime.now(UTC), "database": database.describe()}
    may_drain = request.user.has_perm("console.drain_processes")
    try:
        running = look(connection())
    except (redis.RedisError, OSError) as error:
        return page(request, "console/processes/page.html", title=TITLE, **shown, problem=" ".join(str(error).split()))
    return page(
        request, "console/processes/page.html", title=TITLE, **shown, running=running, may_drain=may_drain,
        totals=_totals(running),
    )  # fmt: skip


def _totals(running: Running) -> list[tuple[str, str]]:
    """Return what stands at the top: labels and numbers."""
    workers = [worker for worker in running.workers if worker.fresh]
    gateways = [gateway for gateway in running.gateways if gateway.fresh]
    running_now, room = (
        sum(int(worker.about.get(name) or 0) for worker in workers) for name in ("running", "max_batch")
    )
    return [
        ("Workers", f"{len(workers):,}"),
        ("Gateways", f"{len(gateways):,}"),
        ("Open streams", f"{sum(int(gateway.about.get('active_streams') or 0) for gateway in gateways):,}"),
        ("Running", f"{running_now:,} of {room:,}"),
        ("Tokens per second", f"{sum(float(worker.about.get('tokens_per_s') or 0) for worker in workers):,.0f}"),
    ]


@staff_page("console.drain_processes")
@require_http_methods(["GET", "HEAD", "POST"])
def drain(request: HttpRequest, process_id: str) -> HttpResponseBase:
    """Ask whether a process is meant to drain; on POST, ask the process to."""
    try:
        running = look(connection())
        process = running.find(process_id)
        if process is None:
            raise Http404(f"No process {process_id}.")
        if request.method == "POST":
            return _drain(request, process)
    except (redis.RedisError, OSError) as error:
        messages.error(request, f"Redis does not answer: {' '.join(str(error).split())}")
        return redirect("console:workers")
    others = running.others_of(process)
    title = f"Drain {process.id}"
    return page(
        request, "console/processes/drain.html", title=title, process=process, others=others, ours=settings.SLUICE
    )


def _drain(request: HttpRequest, process: Process) -> HttpResponseBase:
    if process.draining:
        messages.info(request, f"The {process.kind} {process.id} drains already.")
        return redirect("console:workers")
    try:
        check(process)
    except CannotDrain as error:
        messages.error(request, str(error))
    else:
        audit.note(request, {process.id: f"Asked the {process.kind} to drain."})
        ask(connection(), process)
        messages.success(request, f"Asked {process.id} to drain: it takes no more, and ends.")
    return redirect("console:workers")
