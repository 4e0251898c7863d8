"""What customers say and what they are told, keys and tokens: looked for everywhere they have no business to be."""

from __future__ import annotations

import base64
import contextlib
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from urllib.parse import quote

import httpx
import pytest
import redis

from tests.e2e.collector import Collector
from tests.e2e.conftest import Product, records_of
from tests.e2e.searching import Monitor, Wanted, ids_of
from tests.e2e.traffic import (
    ANSWER,
    NO_KEY,
    PASSWORD,
    PROMPT,
    STOP,
    SYSTEM,
    TOOL_INPUT,
    TOOL_NAME,
    TOOL_RESULT,
    WORDS,
    WRONG_KEY,
    Traffic,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SETTINGS = {
    "SLUICE_LOG_LEVEL": "DEBUG",
    "SLUICE_EVENT_LOG_TTL_S": "2",
    "SLUICE_RESUME_WINDOW_S": "1",
    "SLUICE_AOF_REWRITE_S": "2",
    "SLUICE_SIM_TPOT_MS": "5",
    "SLUICE_METRICS_TOKEN": "metrics-token-9d1c5e",
}
# Where words may pass through, and how long: see DESIGN's section on privacy.
PASSES = re.compile(r'"sluice:\{[^}"]+\}:(log|meta|events|payloads)"')


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector().listening() as collector:
        yield collector


@pytest.fixture(scope="module")
def product(collector: Collector) -> Iterator[Product]:
    traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    made = Product(("--engine", "simulated"), SETTINGS | traced).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


class Found:
    """A product after its traffic, and once all that may pass through has passed."""

    def __init__(self, product: Product, model_folder: Path) -> None:
        self.product = product
        monitor = Monitor(product.home / "redis" / "redis.sock")
        traffic = Traffic(product)
        try:
            traffic.messages()
            traffic.refusals()
            traffic.endings()
            traffic.keys()
            traffic.admin()
            traffic.batch()
            self.metrics = httpx.get(product.url + "/metrics").text
            records_of(product, traffic.key, min(20, traffic.num_admitted))
            self.until_gone()
        finally:
            self.commands = monitor.lines()
        secrets = traffic.secrets | {"wrong key": WRONG_KEY, "no key": NO_KEY, "password": PASSWORD}
        secrets["secret key"] = (product.home / "secret_key").read_text().strip()
        words = {word: word for word in WORDS} | {
            f"ids of the prompt, {between!r} between": ids_of(PROMPT, model_folder, between) for between in (",", ", ")
        }
        self.keys, self.words, self.all = Wanted(secrets), Wanted(words), Wanted(secrets | words)

    def until_gone(self) -> None:
        """Wait until the last log has expired, and the append-only file was rewritten since."""
        deadline = time.monotonic() + 60
        with self.redis() as store:
            while list(store.scan_iter("sluice:*:log")) + list(store.scan_iter("sluice:*:meta")):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        rewrites = self.rewrites()
        while self.rewrites() < rewrites + 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def rewrites(self) -> int:
        with self.redis() as store:
            return int(store.info("commandstats").get("cmdstat_bgrewriteaof", {}).get("calls", 0))

    @contextlib.contextmanager
    def redis(self) -> Iterator[redis.Redis]:
        with contextlib.closing(redis.Redis.from_url(f"unix://{self.product.home}/redis/redis.sock")) as store:
            yield store


@pytest.fixture(scope="module")
def found(product: Product, model_folder: Path) -> Found:
    return Found(product, model_folder)


def test_the_search_finds_what_is_there(found: Found) -> None:
    passing = [line for line in found.commands if found.words.find(line)]
    seen = set().union(*map(found.words.find, passing))
    assert seen >= {PROMPT, SYSTEM, ANSWER, TOOL_NAME, TOOL_INPUT, TOOL_RESULT, STOP}
    for text in (
        PROMPT,
        PROMPT.upper(),
        base64.b64encode(b'{"a": "' + PROMPT.encode() + b'"}').decode(),
        quote(WRONG_KEY),
    ):
        assert found.all.find(f'"body": "{text}"'), text


def test_no_log_line_has_any(found: Found) -> None:
    log = found.product.log
    assert "DEBUG" in log
    found.all.check(log, "the log")


def test_what_redis_is_asked_has_no_key(found: Found) -> None:
    for line in found.commands:
        found.keys.check(line, "Redis")


def test_only_the_queue_and_the_event_logs_carry_words(found: Found) -> None:
    assert any('"celery"' in line for line in found.commands)
    for line in found.commands:
        assert PASSES.search(line) or not found.words.find(line), (found.words.find(line), line[:2000])


def value_of(store: redis.Redis, name: bytes) -> object:
    """All that a key holds."""
    match cast(bytes, store.type(name)):
        case b"string":
            return store.get(name)
        case b"hash":
            return store.hgetall(name)
        case b"set":
            return store.smembers(name)
        case b"list":
            return store.lrange(name, 0, -1)
        case b"zset":
            return store.zrange(name, 0, -1)
        case _:
            return store.xrange(name)


def test_nothing_stays_in_redis(found: Found) -> None:
    with found.redis() as store:
        for name in store.scan_iter("*"):
            found.all.check(name, "a key's name")
            found.all.check(repr(value_of(store, name)), str(name))


def test_nothing_stays_in_the_append_only_file(found: Found) -> None:
    files = [path for path in (found.product.home / "redis").rglob("*") if path.is_file()]
    assert any(path.stat().st_size for path in files if path.exists())
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # a rewrite has ended, and what it wrote has its own name
            found.all.check(path.read_bytes(), str(path))


def test_the_database_has_none(found: Found) -> None:
    dump = found.product.manage("dumpdata", "--natural-foreign")
    assert "records.requestrecord" in dump
    found.words.check(dump, "the database")
    for line in dump.split("}}"):
        assert found.keys.find(line) <= {"session"}, line  # which Django names its row by


def test_the_metrics_tell_none(found: Found) -> None:
    assert "sluice_ttft_seconds_count" in found.metrics
    found.all.check(found.metrics, "/metrics")


def test_the_traces_tell_none(found: Found, collector: Collector) -> None:
    told = b"".join(collector.bodies)
    for service in (b"sluice-gateway", b"sluice-worker", b"sluice-batches"):
        assert service in told
    for name in (b"gen_ai.usage.output_tokens", b"read_stream", b"tokenizing", b"decode", b"safety"):
        assert name in told
    found.all.check(told, "the traces")


def test_no_process_shows_any(found: Found) -> None:
    pids = found.product.processes()
    assert len(pids) >= 5
    for pid in pids:
        for file in ("cmdline", "environ", "comm"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # Redis forks to rewrite its file
                found.all.check(Path(f"/proc/{pid}/{file}").read_bytes().replace(b"\0", b"\n"), f"{file} of {pid}")


def test_files_are_private(found: Found) -> None:
    home = found.product.home
    open_to_others = {
        str(path.relative_to(home)): oct(path.lstat().st_mode)
        for path in home.rglob("*")
        if path.name != "serve.log" and not path.is_symlink() and stat.S_IMODE(path.lstat().st_mode) & 0o077
    }
    assert not open_to_others
