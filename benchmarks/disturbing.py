"""What else goes on in a server while streams run: long prompts, large admin pages, single short requests."""

from __future__ import annotations

import asyncio
import http.cookiejar
import json
import os
import re
import secrets
import statistics
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from processes import Target, manage

from config.loadtest.arrivals import Closed
from config.loadtest.plan import Plan
from config.loadtest.results import percentile
from config.loadtest.run import LoadTest

PROMPT_BYTES = 100_000
PROMPTS_PER_S = 4.0
ROWS = 1000
_SENTENCE = "The keeper of the lighthouse climbed the stairs once more and looked out over the dark water. "

_MAKE_ROWS = f"""
from django.utils import timezone
from accounts.models import ApiKey
from records.models import RequestRecord
key = ApiKey.objects.first()
RequestRecord.objects.bulk_create(
    RequestRecord(id=f'msg_bench{{n}}', organization_id=key.organization_id, key=key, model='m', outcome='end_turn',
                  created_at=timezone.now(), input_tokens=n, output_tokens=n, ttft_ms=n, stream_ms=n, total_ms=n)
    for n in range({ROWS}))
"""


def post_prompts(target: Target, seconds: float) -> dict[int, int]:
    """Post prompts of 100 KB, a few a second; return how many got which status."""
    statuses: dict[int, int] = {}
    begun = time.monotonic()
    number = 0
    while (now := time.monotonic()) < begun + seconds:
        prompt = f"{secrets.token_hex(8)} {_SENTENCE * (PROMPT_BYTES // len(_SENTENCE))}"
        body = {"model": "default", "max_tokens": 1, "messages": [{"role": "user", "content": prompt}]}
        status = _post(target, body)
        statuses[status] = statuses.get(status, 0) + 1
        number += 1
        time.sleep(max(0.0, begun + number / PROMPTS_PER_S - time.monotonic(), 0.02 - (time.monotonic() - now)))
    return statuses


def _post(target: Target, body: dict[str, Any]) -> int:
    headers = {"x-api-key": target.key, "content-type": "application/json"}
    request = urllib.request.Request(target.url + "/v1/messages", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


class Admin:
    """Somebody who is logged into the admin and opens a page with many rows."""

    PAGE = "/admin/records/requestrecord/"

    def __init__(self, target: Target) -> None:
        assert target.environment is not None
        name, password = "bench", secrets.token_urlsafe(16)
        user = {"DJANGO_SUPERUSER_PASSWORD": password}
        arguments = ("createsuperuser", "--noinput", "--username", name, "--email", "bench@example.invalid")
        manage(target.environment | user, *arguments)
        manage(target.environment, "shell", "--verbosity", "0", "-c", _MAKE_ROWS)
        self._url = target.url
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar)
        self._log_in(name, password)

    def look(self, seconds: float) -> list[float]:
        """Open the page again and again; return how long each time took, in s."""
        times: list[float] = []
        begun = time.monotonic()
        while time.monotonic() < begun + seconds:
            at = time.monotonic()
            page = self._get(self.PAGE)
            assert page.count("msg_") > 50, "the page has few rows"
            times.append(time.monotonic() - at)
        return times

    def _log_in(self, name: str, password: str) -> None:
        path = "/admin/login/"
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self._get(path))
        assert token is not None, "no login form"
        fields = {"csrfmiddlewaretoken": token[1], "username": name, "password": password, "next": "/admin/"}
        data = urllib.parse.urlencode(fields).encode()
        request = urllib.request.Request(self._url + path, data, {"referer": self._url + path})
        with self._opener.open(request, timeout=30) as answer:
            assert "/login/" not in answer.url, "cannot log in"

    def _get(self, path: str) -> str:
        with self._opener.open(self._url + path, timeout=60) as answer:
            page: str = answer.read().decode()
            return page


def first_tokens(target: Target, count: int) -> tuple[float, float, float | None]:
    """Ask for short answers, one after the other; return TTFT p50 and p99 and the worker's part of it, in ms.

    The worker's part is what its own clock says of the wait for its step and of the prefill.
    """
    plan = Plan(url=target.url, key=target.key, load=Closed(1), requests=count, max_tokens=2, unique=True,
                seed=os.getpid())  # fmt: skip
    test = LoadTest(plan)
    asyncio.run(test.run())
    times = sorted(trace.ttft for trace in test.traces if trace.measures)
    if not times:
        raise RuntimeError(f"no answers: {[trace.error for trace in test.traces][:3]}")
    return percentile(times, 0.5) * 1000, percentile(times, 0.99) * 1000, _workers_part(target)


def _workers_part(target: Target) -> float | None:
    time.sleep(2.5)  # until the records are stored
    request = urllib.request.Request(f"{target.url}/v1/requests?limit=1000", headers={"x-api-key": target.key})
    with urllib.request.urlopen(request, timeout=30) as answer:
        records = json.load(answer)["results"]
    parts = [
        record["queue_ms"] + record["prefill_ms"]
        for record in records
        if record["output_tokens"] == 2 and record["queue_ms"] is not None and record["prefill_ms"] is not None
    ]
    return statistics.median(parts) if parts else None
