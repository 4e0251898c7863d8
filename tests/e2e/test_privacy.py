"""What customers say and what they are told, keys and tokens: looked for everywhere they have no business to be."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest
import redis
from tokenizers import Tokenizer

from tests.e2e.collector import Collector
from tests.e2e.conftest import Product, a_body, records_of, stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SETTINGS = {
    "SLUICE_LOG_LEVEL": "DEBUG",
    "SLUICE_EVENT_LOG_TTL_S": "2",
    "SLUICE_RESUME_WINDOW_S": "1",
    "SLUICE_AOF_REWRITE_S": "2",
    "SLUICE_SIM_TPOT_MS": "5",
    "SLUICE_METRICS_TOKEN": "metrics-token-9d1c5e",
}
# Words that stand for what people say, in no code of ours. In the answers each is one token: a part of an answer shows.
PROMPT, SYSTEM, ANSWER = "cardiomyopathy", "hyperthyroidism", "periodontitis"
TOOL_NAME, TOOL_TEXT, TOOL_INPUT, TOOL_RESULT = (f"zq{word}q7" for word in ("toolname", "tooltext", "input", "result"))
METADATA, HEADER, WRONG_FIELD, WRONG_VALUE = (f"zq{word}q7" for word in ("metadata", "header", "field", "value"))
SCHEMA, STOP = "zqschemaq7", "zqstopq7"
WORDS = (
    PROMPT, SYSTEM, ANSWER, TOOL_NAME, TOOL_TEXT, TOOL_INPUT, TOOL_RESULT, METADATA, HEADER, WRONG_FIELD, WRONG_VALUE,
    SCHEMA, STOP,
)  # fmt: skip
WRONG_KEY, NO_KEY = f"sk-sluice-AbCdEfGh-{'zq7' * 14}q", "zq-something-pasted-by-mistake-q7"
JSON = {"content-type": "application/json"}
PASSWORD = "zq-root-password-q7"
# Where words may pass through, and how long: see DESIGN's section on privacy.
PASSES = re.compile(r'"sluice:\{[^}"]+\}:(log|meta|events|payloads)"')


class Monitor:
    """Everything that a Redis is asked to do, as it says itself."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._socket.sendall(b"MONITOR\r\n")
        self._seen = bytearray()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while chunk := self._socket.recv(1 << 20):
            self._seen += chunk

    def lines(self) -> list[str]:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        return self._seen.decode(errors="replace").splitlines()


def spellings(secret: str) -> set[bytes]:
    """How a text may be written."""
    raw = secret.encode()
    in_base64 = {
        base64.b64encode(b"\0" * before + raw)[(before * 4 + 2) // 3 :].rstrip(b"=")[:-1] for before in range(3)
    }
    return {raw, raw.hex().encode(), quote(secret, safe="").encode(), *in_base64}


class Wanted:
    """All secrets, by how they may be written."""

    def __init__(self, secrets: dict[str, str]) -> None:
        self._names = {spelling: name for name, secret in secrets.items() for spelling in spellings(secret)}
        self._any = re.compile(
            b"|".join(sorted(map(re.escape, self._names), key=lambda spelling: -len(bytes(spelling)))),
            re.IGNORECASE,
        )

    def find(self, text: str | bytes) -> set[str]:
        """Return the names of the secrets in a text."""
        raw = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        lower = {spelling.lower(): name for spelling, name in self._names.items()}
        return {lower[found.lower()] for found in self._any.findall(raw)}

    def check(self, text: str | bytes, where: str) -> None:
        for line in text.split(b"\n") if isinstance(text, bytes) else text.split("\n"):
            assert not self.find(line), f"{where}: {self.find(line)} in {line[:2000]!r}"


def prompt_ids(model_folder: Path, between: str) -> str:
    """A part of the long prompt as token ids."""
    tokenizer = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    return between.join(map(str, tokenizer.encode(f" {PROMPT}" * 4, add_special_tokens=False).ids))


class Traffic:
    """Everything a customer and an operator do."""

    def __init__(self, product: Product) -> None:
        self.product, self.secrets = product, {}
        self.secrets["key"] = self.key = product.manage("createkey", "first", "--scope", "inference,usage,admin")
        self.num_admitted = 0

    @property
    def headers(self) -> dict[str, str]:
        return {"x-api-key": self.key}

    def post(self, path: str, body: Any, expected: int, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        r = httpx.post(self.product.url + path, content=content, headers=self.headers | JSON | headers, timeout=60)
        assert r.status_code == expected, r.text
        self.num_admitted += path in ("/v1/messages", "/v1/streams", "/v1/chat/completions") and r.is_success
        return r

    def messages(self) -> None:
        said = f"SLUICE-SAY: It is {ANSWER}, I fear."
        tool = {"name": TOOL_NAME, "description": TOOL_TEXT, "input_schema": {"type": "object", "title": SCHEMA}}
        call = {"name": TOOL_NAME, "arguments": {"about": TOOL_INPUT}}
        called = f"SLUICE-SAY: <tool_call>\n{json.dumps(call)}\n</tool_call>"
        user = {"metadata": {"user_id": METADATA}, "system": SYSTEM, "stop_sequences": [STOP]}
        assert ANSWER in self.post("/v1/messages", a_body(said, **user), 200).text
        assert any(ANSWER in str(event.data) for event in stream(self.product, self.key, a_body(said, **user)))
        self.num_admitted += 1
        assert TOOL_INPUT in self.post("/v1/messages", a_body(called, max_tokens=200, tools=[tool]), 200).text
        used = {"about": TOOL_INPUT}
        turns = [
            {"role": "user", "content": PROMPT},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": TOOL_NAME, "input": used}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": TOOL_RESULT}]},
        ]  # fmt: skip
        self.post("/v1/messages", a_body(tools=[tool], messages=turns), 200, **{"idempotency-key": HEADER})
        self.post("/v1/messages/count_tokens", {"model": "default", "messages": turns, "tools": [tool]}, 200)
        chat = {"model": "default", "max_tokens": 16, "user": METADATA, "messages": [{"role": "user", "content": said}]}
        assert ANSWER in self.post("/v1/chat/completions", chat, 200).text
        self.post("/v1/chat/completions", chat | {"stream": True}, 200)
        self.post("/v1/messages", a_body(f"{PROMPT} " * 1000, max_tokens=2), 200)  # a long one is tokenised in a thread

    def refusals(self) -> None:
        for body in (
            a_body(PROMPT, **{WRONG_FIELD: 1}),
            a_body(PROMPT, max_tokens=WRONG_VALUE),
            a_body(PROMPT, tool_choice={"type": WRONG_VALUE}),
            a_body(PROMPT, model=WRONG_VALUE) | {"messages": [{"role": WRONG_VALUE, "content": PROMPT}]},
            a_body([{"type": "image", "source": {"type": "base64", "data": PROMPT}}]),  # type: ignore[arg-type]
            a_body(PROMPT, max_tokens=10**6),
            a_body(PROMPT, tools=[{"name": TOOL_NAME, "input_schema": {"$ref": SCHEMA}}], tool_choice={"type": "any"}),
            a_body(PROMPT + "\ud800"),
            json.dumps(a_body(PROMPT)).encode()[:-9] + b"\xff",
            f'{{"model": "default", {PROMPT}'.encode(),
            b"[" * 100_000,
        ):
            self.post("/v1/messages", body, 400)
        self.post("/v1/messages", a_body(PROMPT, model=WRONG_VALUE), 404)
        self.post("/v1/messages", a_body(PROMPT * 400_000), 413)
        self.post("/v1/messages", a_body(PROMPT), 400, **{"x-sluice-on-disconnect": HEADER})
        self.post(
            "/v1/chat/completions", {"model": "default", "messages": [{"role": "user", "content": 7}], "n": PROMPT}, 400
        )
        for path in ("/v1/messages", "/v1/requests", "/v1/organization/keys", f"/v1/{PROMPT}"):
            for key in (WRONG_KEY, NO_KEY):
                for headers in ({"x-api-key": key}, {"authorization": f"Bearer {key}"}):
                    r = httpx.request("GET" if "o" in path else "POST", self.product.url + path, headers=headers)
                    assert r.status_code in (401, 404, 405), r.text
        for url in (
            f"/v1/requests?key={self.key}",
            f"/v1/streams/msg_1?token={NO_KEY}",
            f"/{self.key}",
            "/admin/?q=%ff" + PROMPT,
        ):
            assert httpx.get(self.product.url + url, headers=self.headers).status_code < 500
        with socket.create_connection(("127.0.0.1", self.product.port)) as raw:  # what is no HTTP
            raw.sendall(
                f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {self.key}\r\n{HEADER}\r\n\r\n{PROMPT}".encode()
            )
            raw.recv(1000)

    def endings(self) -> None:
        """A stream that is cancelled, one whose client leaves, one whose worker dies, one by its token."""
        body = a_body(PROMPT, max_tokens=3000)
        r = self.post("/v1/streams", body, 202).json()
        self.secrets["stream token"] = httpx.URL(r["stream_url"]).params["token"].rpartition(".")[2]
        with httpx.stream("GET", self.product.url + r["stream_url"], timeout=60) as response:
            lines = response.iter_lines()
            next(line for line in lines if "content_block_delta" in line)
            for pid in self.product.processes("-m inference"):
                os.kill(pid, signal.SIGKILL)
            next(line for line in lines if "content_block_delta" in line)
            httpx.delete(f"{self.product.url}/v1/streams/{r['id']}", headers=self.headers)
            assert any("message_stop" in line for line in lines)
        assert httpx.get(self.product.url + r["stream_url"] + "x").status_code == 401
        with httpx.stream(
            "POST", self.product.url + "/v1/messages", json=body | {"stream": True}, headers=self.headers
        ) as response:
            next(response.iter_lines())
        self.num_admitted += 1

    def keys(self) -> None:
        url = "/v1/organization/keys"
        made = self.post(url, {"name": "second"}, 201).json()
        self.secrets["key made by API"] = made["key"]
        self.secrets["rotated key"] = self.post(f"{url}/{made['id']}/rotate", {}, 200).json()["key"]
        self.post(url, {"name": WRONG_VALUE, WRONG_FIELD: 1}, 400)
        httpx.get(self.product.url + "/v1/requests", headers={"x-api-key": made["key"]})

    def admin(self) -> None:
        make = (
            f"from django.contrib.auth.models import User; User.objects.create_superuser('root', password='{PASSWORD}')"
        )
        self.product.manage("shell", "-c", make)
        url = self.product.url + "/admin"
        with httpx.Client(follow_redirects=True) as browser:
            page = browser.get(f"{url}/login/")
            for password in (NO_KEY, PASSWORD):
                form = {
                    "username": "root",
                    "password": password,
                    "csrfmiddlewaretoken": field(page, "csrfmiddlewaretoken"),
                }
                page = browser.post(f"{url}/login/?next=/admin/", data=form)
            assert "Log out" in page.text
            self.secrets["session"] = browser.cookies["sessionid"]
            page = browser.get(f"{url}/accounts/apikey/add/")
            organization = httpx.get(self.product.url + "/v1/organization", headers=self.headers).json()["id"]
            form = {name: field(page, name) for name in ("csrfmiddlewaretoken", "new_id")}
            form |= {"organization": organization, "name": "third", "scopes": "inference"}
            page = browser.post(f"{url}/accounts/apikey/add/", data=form)
            found = re.search(r"sk-sluice-\w{8}-\w{43}", page.text)
            assert found, page.text
            self.secrets["key made by admin"] = found[0]
            browser.get(f"{url}/records/requestrecord/?q={PROMPT}")

    def batch(self) -> None:
        requests = [{"custom_id": f"zq-{i}", "params": a_body(f"SLUICE-SAY: {ANSWER} {PROMPT}")} for i in range(3)]
        batches = "/v1/messages/batches"
        made = self.post(batches, {"requests": requests}, 200).json()
        url = f"{self.product.url}{batches}/{made['id']}"
        while httpx.get(url, headers=self.headers).json()["processing_status"] != "ended":
            time.sleep(0.1)
        assert ANSWER in httpx.get(f"{url}/results", headers=self.headers).text
        assert httpx.delete(url, headers=self.headers).status_code == 200
        self.num_admitted += 3


def field(page: httpx.Response, name: str) -> str:
    """The value of a form's hidden field."""
    tag = next(tag for tag in re.findall(r"<input[^>]*>", page.text) if f'name="{name}"' in tag)
    found = re.search(r'value="([^"]*)"', tag)
    assert found
    return found[1]


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
            f"ids of the prompt, {between!r} between": prompt_ids(model_folder, between) for between in (",", ", ")
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
    for service in (b"sluice-gateway", b"sluice-worker"):
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
