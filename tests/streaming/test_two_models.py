"""Two models side by side, each served by a worker of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
import redis
from tokenizers import Tokenizer

from inference.broker import Broker
from inference.detokenizer import Vocabulary
from inference.engines.simulated import SimulatedEngine
from inference.protocol import keys
from inference.protocol.settings import Settings
from inference.worker import Worker
from streaming.gateway import Gateway
from streaming.prompts import PromptTemplate
from tests.inference.tools import entries_of
from tests.streaming.conftest import Ask, KnownCaller, a_body

CONTEXTS = {"large": 8192, "small": 512}


class Serving:
    """A worker in a thread."""

    def __init__(self, engine: SimulatedEngine, vocabulary: Vocabulary, store: redis.Redis, settings: Settings) -> None:
        broker = Broker(store, model=settings.model, lease_s=settings.lease_s, log_ttl_s=60)
        self._worker = Worker(engine, broker, vocabulary, settings)
        broker.worker = f"worker of {settings.model}"  # in one process they would be taken for one
        self._worker.turn()
        self._thread = threading.Thread(target=self._worker.run)
        self._thread.start()

    def stop(self) -> None:
        self._worker.stop()
        self._thread.join(10)


@pytest.fixture
def workers(
    store: redis.Redis, settings: Settings, tokenizer: Tokenizer, vocabulary: Vocabulary
) -> Iterator[dict[str, Serving]]:
    made = {
        name: Serving(engine_of(name, tokenizer), vocabulary, store, replace(settings, model=name)) for name in CONTEXTS
    }
    yield made
    for worker in made.values():
        worker.stop()


@pytest.fixture
async def gateway(workers: dict[str, Serving], settings: Settings, template: PromptTemplate) -> AsyncIterator[Gateway]:
    made = Gateway(settings)
    made.catalog._templates |= dict.fromkeys(CONTEXTS, template)
    made.authenticator = KnownCaller()  # type: ignore[assignment]  # no database in these tests
    yield made
    await made.close()


def engine_of(model: str, tokenizer: Tokenizer) -> SimulatedEngine:
    return SimulatedEngine(tokenizer, context_length=CONTEXTS[model], max_batch=8, prefill_s=0.001, tpot_s=0.001)


async def test_it_works(ask: Ask, store: redis.Redis) -> None:
    listed = (await (await ask("GET", "/v1/models")).whole()).json()["data"]
    assert {model["id"]: model["max_input_tokens"] for model in listed} == CONTEXTS

    for model in CONTEXTS:
        r = await (await ask("POST", "/v1/messages", a_body(model=model))).whole()
        assert (r.status, r.json()["model"]) == (200, model)

    for model in CONTEXTS:
        ((_, fields),) = entries_of(store, keys.settlements(model))
        assert f'"worker":"worker of {model}"'.encode() in fields[b"r"]


async def test_the_default_is_the_first(ask: Ask) -> None:
    assert (await (await ask("POST", "/v1/messages", a_body())).whole()).json()["model"] == "large"


async def test_each_has_a_context_of_its_own(ask: Ask) -> None:
    for model, status in (("large", 200), ("small", 400)):
        r = await (await ask("POST", "/v1/messages", a_body("word " * 600, model=model))).whole()
        assert r.status == status


async def test_a_model_that_is_no_longer_served_is_not_listed(
    ask: Ask, gateway: Gateway, workers: dict[str, Serving]
) -> None:
    await gateway.started()
    await asyncio.to_thread(workers["small"].stop)
    await gateway.catalog.refresh()
    listed = (await (await ask("GET", "/v1/models")).whole()).json()["data"]
    assert [model["id"] for model in listed] == ["large"]
    assert (await (await ask("POST", "/v1/messages", a_body(model="small"))).whole()).status == 404
