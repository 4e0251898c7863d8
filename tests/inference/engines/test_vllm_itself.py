"""vLLM with the default model under our worker; `make test-vllm` runs these in an environment of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
import torch
from django.conf import settings as django_settings
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from inference.broker import Broker
from inference.detokenizer import Vocabulary
from inference.engines.base import EngineRequest, StepOutput
from inference.engines.vllm import VllmEngine
from inference.protocol import keys, scripts
from inference.protocol.requests import GenerationRequest, Sampling
from inference.protocol.settings import Settings, load
from inference.worker import Worker
from tests.inference.tools import MODEL, Bench, a_request, enqueue

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),  # a first start compiles
    pytest.mark.filterwarnings("default"),  # what vLLM's imports warn of is not ours to mend
]

QUESTION = "<|im_start|>user\nWrite a short story about a lighthouse keeper.<|im_end|>\n<|im_start|>assistant\n"
LONG = "Once upon a time there was a keeper. " * 40
WARM = Sampling(temperature=0.8, top_p=0.95, seed=7)


@pytest.fixture(scope="module")
def settings() -> Settings:
    models = str(django_settings.SLUICE.models_path)
    return load({"SLUICE_ENGINE": "vllm", "SLUICE_MODELS": models, "SLUICE_KV_CACHE_TOKENS": "8192"})


@contextmanager
def closing_engine(settings: Settings) -> Iterator[VllmEngine]:
    engine = VllmEngine.load(settings)
    try:
        yield engine
    finally:
        engine._core._engine.engine_core.shutdown()  # type: ignore[attr-defined]  # the end of a process does it


@pytest.fixture(scope="module")
def loaded(settings: Settings) -> Iterator[VllmEngine]:
    with closing_engine(settings) as engine:
        yield engine


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A model that can be split in two, and knows nothing."""
    config = LlamaConfig(vocab_size=49152, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    torch.nn.Module.to(model, torch.bfloat16)
    model.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def engine(loaded: VllmEngine) -> Iterator[VllmEngine]:
    yield loaded
    for name in list(loaded._requests):
        loaded.cancel(name)


@pytest.fixture
def served(store: redis.Redis, vocabulary: Vocabulary, settings: Settings, engine: VllmEngine) -> Bench:
    """A worker around vLLM on a bench."""
    return with_worker(Bench(store, vocabulary), engine, settings)


def with_worker(bench: Bench, engine: VllmEngine, settings: Settings) -> Bench:
    broker = Broker(bench.store, model=MODEL, lease_s=settings.lease_s, log_ttl_s=60)
    bench.worker = Worker(engine, broker, bench.vocabulary, settings)
    return bench


def ids(words: Tokenizer, text: str = QUESTION) -> tuple[int, ...]:
    return tuple(words.encode(text, add_special_tokens=False).ids)


def run(engine: VllmEngine, *requests: EngineRequest) -> dict[str, list[StepOutput]]:
    outputs: dict[str, list[StepOutput]] = {request.id: [] for request in requests}
    for request in requests:
        engine.submit(request)
    while not all(given and given[-1].finish for given in outputs.values()):
        for output in engine.step():
            outputs[output.id].append(output)
    return outputs


def tokens(outputs: list[StepOutput]) -> tuple[int, ...]:
    return tuple(token for output in outputs for token in output.token_ids)


def asked(words: Tokenizer, name: str = "a", **changes: Any) -> EngineRequest:
    return replace(EngineRequest(id=name, prompt_ids=ids(words), max_tokens=24), **changes)


def a_story(words: Tokenizer, name: str = "msg_1", **changes: Any) -> GenerationRequest:
    return a_request(
        name, **({"prompt_ids": ids(words), "max_tokens": 24, "sampling": Sampling(temperature=0)} | changes)
    )


def serve(bench: Bench, count: int = 1) -> None:
    while len(bench.settlements()) < count:
        bench.worker.turn()


def text_of(bench: Bench, name: str = "msg_1") -> str:
    events = bench.events(name)
    return "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")


def test_it_serves_a_stream(served: Bench, words: Tokenizer) -> None:
    enqueue(served.store, a_story(words))
    serve(served)
    (settlement,) = served.settlements()
    assert (settlement.outcome, settlement.output_tokens) == ("max_tokens", 24)
    assert len([event for event in served.events() if event["type"] == "content_block_delta"]) > 15
    assert "lighthouse" in text_of(served)
    assert served.is_forgotten()
    (raw,) = served.store.hvals(keys.WORKERS)
    about = json.loads(raw)
    assert (about["engine"], about["context_length"], about["kv_tokens_total"]) == ("vllm", 8192, 8192)


def test_it_decodes_many_together(served: Bench, words: Tokenizer) -> None:
    for number in range(8):
        enqueue(served.store, a_story(words, f"msg_{number}"))
    served.worker.turn()
    served.worker.turn()
    assert served.worker.about()["running"] == 8
    serve(served, 8)
    assert len({text_of(served, f"msg_{number}")[:30] for number in range(8)}) == 1


def test_the_end_of_the_text_ends_it(served: Bench, words: Tokenizer) -> None:
    question = "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n"
    enqueue(served.store, a_story(words, prompt_ids=ids(words, question), max_tokens=500))
    serve(served)
    assert served.outcomes == ["end_turn"]
    assert "<|im_end|>" not in text_of(served)


def test_a_stop_string_ends_it(served: Bench, words: Tokenizer, engine: VllmEngine) -> None:
    enqueue(served.store, a_story(words, "msg_1"))
    serve(served)
    whole = text_of(served)
    stop = " ".join(whole.split()[6:8])
    enqueue(served.store, a_story(words, "msg_2", stop_sequences=(stop,)))
    serve(served, 2)
    assert served.outcomes[1] == "stop_sequence"
    assert text_of(served, "msg_2") == whole[: whole.index(stop)]
    assert engine.stats().running == 0


def test_a_cancel_ends_it_within_a_step(served: Bench, words: Tokenizer, engine: VllmEngine) -> None:
    enqueue(served.store, a_story(words, max_tokens=500))
    for _ in range(5):
        served.worker.turn()
    served.store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "client_gone")
    served.worker.turn()
    served.worker.turn()
    assert served.outcomes == ["client_gone"]
    assert (engine.stats().running, engine.stats().kv_tokens_used) == (0, 0)


@pytest.mark.parametrize("sampling", [Sampling(temperature=0), WARM], ids=["greedy", "warm"])
def test_another_worker_continues(
    served: Bench, words: Tokenizer, engine: VllmEngine, settings: Settings, sampling: Sampling
) -> None:
    enqueue(served.store, a_story(words, "msg_1", sampling=sampling))
    serve(served)
    enqueue(served.store, a_story(words, "msg_2", sampling=sampling))
    for _ in range(12):
        served.worker.turn()
    engine.cancel("msg_2")  # its worker is dead
    served.lapse("msg_2")
    heir = with_worker(Bench(served.store, served.vocabulary), engine, settings)
    serve(heir, 2)
    assert heir.settlements()[1].attempts == 2
    assert text_of(heir, "msg_2") == text_of(heir, "msg_1")


def test_the_seed_decides_whatever_else_runs(engine: VllmEngine, words: Tokenizer) -> None:
    alone = run(engine, asked(words, sampling=WARM))["a"]
    other = Sampling(temperature=1.5, seed=8)
    among = run(engine, asked(words, "b", sampling=other), asked(words, sampling=WARM), asked(words, "c"))
    assert tokens(among["a"])[:16] == tokens(alone)[:16]  # later ones may tie: sums differ a little with the batch
    assert tokens(among["b"])[:16] != tokens(alone)[:16]


def test_a_draw_is_of_its_seed_and_position(engine: VllmEngine, words: Tokenizer) -> None:
    whole = tokens(run(engine, asked(words, sampling=WARM))["a"])
    rest = tokens(run(engine, asked(words, sampling=WARM, generated_ids=whole[:10]))["a"])
    assert rest == whole[10:]


def test_a_cancelled_request_says_no_more(engine: VllmEngine, words: Tokenizer) -> None:
    for name in ("a", "b"):
        engine.submit(asked(words, name, max_tokens=100))
    while not engine.step():
        pass
    engine.cancel("a")
    assert {output.id for _ in range(3) for output in engine.step()} == {"b"}
    engine.submit(asked(words, "a", max_tokens=3))
    assert {output.id for _ in range(3) for output in engine.step()} == {"a", "b"}


def test_a_prefix_is_shared_within_an_organization(engine: VllmEngine, words: Tokenizer) -> None:
    prompt = ids(words, LONG)

    def cached(salt: str) -> int:
        return run(engine, asked(words, prompt_ids=prompt, max_tokens=2, salt=salt))["a"][0].cached_tokens

    assert cached("org_1") == 0
    assert cached("org_1") > len(prompt) // 2
    assert cached("org_2") == 0


def test_a_split_model_draws_the_same(words: Tokenizer, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # it would not share cores

    def drawn(**split: str) -> list[tuple[int, ...]]:
        settings = load({"SLUICE_ENGINE": "vllm", "SLUICE_MODELS": str(tiny.parent), "SLUICE_MODEL": tiny.name} | split)
        with closing_engine(settings) as engine:
            outputs = run(engine, asked(words, "a"), asked(words, "b", sampling=WARM))
            return [tokens(outputs[name]) for name in "ab"]

    whole = drawn()
    assert [len(token_ids) for token_ids in whole] == [24, 24]
    assert drawn(SLUICE_TENSOR_PARALLEL="2") == whole
    assert drawn(SLUICE_PIPELINE_PARALLEL="2") == whole


@pytest.mark.parametrize(
    ("error", "finish"), [(MemoryError("Out of memory"), "oom"), (RuntimeError("a bad step"), "error")]
)
def test_a_failed_step_ends_what_it_was_for(
    engine: VllmEngine, words: Tokenizer, monkeypatch: pytest.MonkeyPatch, error: Exception, finish: str
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    prompt = ids(words, LONG)
    whole = tokens(run(engine, asked(words, prompt_ids=prompt, salt="org_1"))["a"])
    executor = engine._core._engine.engine_core.engine_core.model_executor  # type: ignore[attr-defined]
    engine.submit(asked(words, "b", prompt_ids=prompt, salt="org_2"))
    with monkeypatch.context() as patch:
        patch.setattr(executor, "execute_model", fail)
        assert [(output.id, output.finish) for output in engine.step()] == [("b", finish)]
    assert (engine.stats().running, engine.stats().kv_tokens_used) == (0, 0)
    outputs = run(engine, asked(words, prompt_ids=prompt, salt="org_2"))["a"]
    assert (outputs[0].cached_tokens, tokens(outputs)) == (0, whole), "what was never computed is in no cache"
