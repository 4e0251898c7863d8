"""What a page of active streams costs while many run: the browser that shows it, and Celery, which makes its table.

    python benchmarks/watching.py --streams 2000

It needs Node, Chromium and the packages of `tests/clients/node`. The engine is the simulated one; the page shows the
first hundred rows, in their default order, and follows all. A long task is one of more than 50 ms.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import streaming
from processes import MAX_BATCH, Target, cpu_s, descendants, manage, product

from tests.clients.driving import Browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PASSWORD = "a-long-pass-phrase"
MAKE_USER = f"from django.contrib.auth.models import User; User.objects.create_superuser('olga', password='{PASSWORD}')"
OBSERVE = """
    window.tasks = [];
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map((task) => task.duration))).observe(
        { type: "longtask", buffered: true });
"""
TOLD = "new Promise((go) => setTimeout(() => go(tasks.splice(0)), 100))"


@contextmanager
def watching(target: Target) -> Iterator[Browser]:
    """Open the page as an operator."""
    node = os.environ.get("NODE") or shutil.which("node")
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not node or not chromium:
        sys.exit("It needs Node and Chromium.")
    manage(target.environment or {}, "shell", "-c", MAKE_USER)
    with Browser.start(node, chromium, target.url) as page:
        page("goto", f"{target.url}/admin/login/?next=/admin/console/streams/")
        page("fill", "#id_username", "olga")
        page("fill", "#id_password", PASSWORD)
        page("click", "[type=submit]")
        page("waitForSelector", "#live[data-state=live]")
        yield page


def celery_s(target: Target) -> float:
    """Return the CPU time that Celery's processes have used."""
    return sum(cpu_s(pid) for pid, command in descendants(target.pid) if "celery" in command)


def share(target: Target, seconds: float) -> float:
    """Return the part of a core that Celery takes."""
    before, began = celery_s(target), time.monotonic()
    time.sleep(seconds)
    return (celery_s(target) - before) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000, help="open streams (2000)")
    parser.add_argument("--rate", type=float, default=0.5, help="tokens a second of each (0.5)")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of the measurement (30)")
    options = parser.parse_args()
    whole_s = 2 * options.seconds + 30
    with (
        product(rate=options.rate, prefill_ms=10, workers=-(-options.streams // MAX_BATCH)) as target,
        streaming(target, streams=options.streams, rate=options.rate, seconds=whole_s),
    ):
        idle = share(target, options.seconds)
        with watching(target) as page:
            page("evaluate", OBSERVE)
            loading = page("evaluate", TOLD)
            busy = share(target, options.seconds)
            live = page("evaluate", TOLD)
            rows = page("textContent", "#total")
    print(f"{rows} streams of {options.rate:g} tokens/s, {options.seconds:g} s")
    print(f"long tasks while it loads: {told(loading)}; while it is live: {told(live)}")
    print(f"Celery: {busy:.2f} of a core while a page watches, {idle:.2f} while none does")


def told(tasks: list[float]) -> str:
    return f"{len(tasks)}, the longest {max(tasks):.0f} ms" if tasks else "none"


if __name__ == "__main__":
    main()
