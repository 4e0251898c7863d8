"""A gateway in this process, a worker with the simulated engine in a thread, a real Redis between them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from channels.routing import URLRouter
from channels.testing import HttpCommunicator
from django.conf import settings as django_settings
from tokenizers import Tokenizer

from accounts.callers import Caller
from common.errors import AuthenticationFailed
from inference.broker import Broker
from inference.detokenizer import Vocabulary
from inference.engines.simulated import SimulatedEngine
from inference.protocol import keys
from inference.protocol.reports import Settlement
from inference.protocol.settings import Settings
from inference.worker import Worker
from streaming.asgi import Message, Scope
from streaming.auth import key_of
from streaming.gateway import Gateway
from streaming.prompts import PromptTemplate
from streaming.routes import routes
from tests.inference.tools import entries_of

CALLER = Caller("key_1", "org_1", frozenset({"inference"}), policy="off")


class KnownCaller:
    """Knows one key, without a database."""

    async def authenticate(self, scope: Scope, *, needs: str) -> Caller:
        if key_of(scope) != "good":
            raise AuthenticationFailed("Invalid API key.")
        return CALLER

    revoked = False

    async def by_id(self, key: str, *, needs: str) -> Caller:
        if self.revoked or key != CALLER.key:
            raise AuthenticationFailed("The key was revoked.")
        return CALLER


@pytest.fixture
def settings(redis_server: str) -> Settings:
    """What a test may replace before the gateway is made."""
    return replace(django_settings.SLUICE, redis_url=redis_server, heartbeat_s=5.0, drain_s=2.0)


@pytest.fixture(scope="session")
def tokenizer(model_folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def vocabulary(model_folder: Path) -> Vocabulary:
    return Vocabulary.load(model_folder)


@pytest.fixture(scope="session")
def template(model_folder: Path) -> PromptTemplate:
    return PromptTemplate.load(model_folder)


@pytest.fixture
def worker(store: redis.Redis, settings: Settings, tokenizer: Tokenizer, vocabulary: Vocabulary) -> Iterator[Worker]:
    engine = SimulatedEngine(
        tokenizer,
        context_length=8192,
        max_batch=64,
        prefill_s=settings.sim_prefill_ms / 1000,
        tpot_s=settings.sim_tpot_ms / 1000,
    )
    broker = Broker(store, model=settings.model, lease_s=settings.lease_s, log_ttl_s=settings.event_log_ttl_s)
    made = Worker(engine, broker, vocabulary, settings)
    made.turn()  # its first heartbeat: from here on the gateway knows it
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.stop()
    thread.join(10)


@pytest.fixture
def idle(worker: Worker) -> SimulatedEngine:
    """The worker's engine, which has no room for anything until a test gives it some."""
    engine = cast(SimulatedEngine, worker._engine)
    engine.max_batch = 0
    return engine


@pytest.fixture
async def gateway(worker: Worker, settings: Settings, template: PromptTemplate) -> AsyncIterator[Gateway]:
    made = Gateway(settings)
    made.catalog._templates[settings.model] = template  # loading it takes longer than a test
    made.authenticator = KnownCaller()  # type: ignore[assignment]  # no database in these tests
    yield made
    await made.close()


@dataclass
class Response:
    """A response as it arrives."""

    communicator: HttpCommunicator
    status: int
    headers: dict[str, str]
    body: bytes = b""
    ended: bool = False
    writes: list[bytes] = field(default_factory=list)

    async def more(self, timeout: float = 10) -> bytes:
        message: Message = await self.communicator.receive_output(timeout)
        self.ended = not message.get("more_body", False)
        self.body += message["body"]
        self.writes.append(message["body"])
        return bytes(message["body"])

    async def whole(self) -> Response:
        while not self.ended:
            await self.more()
        await self.communicator.wait()
        return self

    async def until(self, words: bytes) -> None:
        while words not in self.body:
            await self.more()

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line[6:]) for line in self.body.decode().split("\n") if line.startswith("data: ")]

    async def leave(self) -> None:
        """Close the connection, as a client does."""
        await self.communicator.send_input({"type": "http.disconnect"})
        await self.communicator.wait()


Ask = Callable[..., Any]


@pytest.fixture
def call(gateway: Gateway) -> Ask:
    """Send a request to the gateway and leave it at that."""
    application = URLRouter(routes(gateway))

    async def send(method: str, path: str, body: Any = None, key: str = "good", **headers: str) -> HttpCommunicator:
        pairs = [(b"x-api-key", key.encode())]
        pairs += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        communicator = HttpCommunicator(application, method, path, raw, pairs)
        await communicator.send_input({"type": "http.request", "body": raw})
        return communicator

    return send


@pytest.fixture
def ask(call: Ask) -> Ask:
    """Send a request to the gateway; the response has begun when this returns."""

    async def send(*arguments: Any, **more: Any) -> Response:
        communicator = await call(*arguments, **more)
        start = await communicator.receive_output(10)
        headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return Response(communicator, start["status"], headers)

    return send


def a_body(text: str = "Tell me.", **more: Any) -> dict[str, Any]:
    body = {"model": "default", "max_tokens": 5, "messages": [{"role": "user", "content": text}]}
    return body | more


async def settlement_of(store: redis.Redis, settings: Settings) -> Settlement:
    """Wait for the one settlement."""
    async with asyncio.timeout(10):
        while not (entries := entries_of(store, keys.settlements(settings.model))):
            await asyncio.sleep(0.01)
    ((_, fields),) = entries
    return Settlement.decode(fields[b"r"])
