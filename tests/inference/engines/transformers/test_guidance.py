"""Holding what a model writes to a grammar."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLParserLimits
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from inference.engines.base import EngineRequest
from inference.engines.transformers import TransformersEngine
from inference.engines.transformers import guidance as guidance_module
from inference.engines.transformers.guidance import GrammarError, Guidance, Guide
from inference.engines.transformers.sampling import Draw, Sampler
from inference.protocol.requests import Grammar, Sampling
from tests.inference.engines.transformers import tools
from tests.inference.engines.transformers.schemas import Schema, is_valid, object_schemas, schemas
from tests.inference.engines.transformers.tools import END_IDS, VOCAB_SIZE, WARM, load, run

CPU = torch.device("cpu")
PATIENCE_S = 20.0


@pytest.fixture(scope="session")
def tokenizer(models: Path) -> Tokenizer:
    """The tiny model's: the printable characters of ASCII, and two tokens that end a text."""
    made = Tokenizer(byte_level_model())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<end>", special=True), AddedToken("<stop>", special=True)])
    assert made.get_vocab_size() == VOCAB_SIZE
    made.save(str(models / "tiny" / "tokenizer.json"))
    return made


def byte_level_model() -> models.BPE:
    characters = ["Ġ", *(chr(code) for code in range(0x21, 0x7F))]  # a space is written so
    return models.BPE({character: number for number, character in enumerate(characters)}, [])


@pytest.fixture(scope="session")
def guidance(tokenizer: Tokenizer, models: Path) -> Iterator[Guidance]:
    made = Guidance(models / "tiny" / "tokenizer.json", VOCAB_SIZE, END_IDS)
    yield made
    made.close()


@pytest.fixture(scope="session")
def real_guidance(model_folder: Path) -> Iterator[Guidance]:
    made = Guidance(model_folder / "tokenizer.json", 49152, [2])
    yield made
    made.close()


def grammar_of(schema: Schema) -> str:
    written = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return f"start: %json {json.dumps(schema | {'x-guidance': written})}"


def guide_of(guidance: Guidance, grammar: str, generated_ids: tuple[int, ...] = (), **more: Any) -> Guide:
    request = EngineRequest(
        id="a", prompt_ids=(1,), max_tokens=9, grammar=Grammar(grammar, **more), generated_ids=generated_ids
    )
    return guidance.compile(request).result(PATIENCE_S)


def write(guide: Guide, sampler: Sampler, vocab_size: int, seed: int, limit: int = 2000) -> list[int]:
    """Draw tokens from random logits until the grammar is complete, or an end is drawn."""
    generator, token_ids = torch.Generator().manual_seed(seed), list[int]()
    while not guide.is_complete and len(token_ids) < limit:
        logits = torch.randn(1, vocab_size, generator=generator)
        (token,) = sampler.sample(logits, [Draw(Sampling(seed=seed), len(token_ids), guide)])
        assert token is not None, guide.problem
        if token in END_IDS:
            break
        token_ids.append(token)
        guide.accept(token)
    return token_ids


@pytest.fixture(scope="session")
def sampler() -> Sampler:
    return Sampler(VOCAB_SIZE, CPU)


def test_it_works(guidance: Guidance, tokenizer: Tokenizer, sampler: Sampler) -> None:
    guide = guide_of(guidance, 'start: "yes" | "no"')
    assert tokenizer.decode(write(guide, sampler, VOCAB_SIZE, 1)) in ("yes", "no")
    assert guide.is_complete
    assert guide.problem == ""


@settings(max_examples=150)
@given(schema=schemas | object_schemas, seed=st.integers(0, 1000))
def test_whatever_the_logits_the_schema_is_kept_to(
    guidance: Guidance, tokenizer: Tokenizer, sampler: Sampler, schema: Schema, seed: int
) -> None:
    token_ids = write(guide_of(guidance, grammar_of(schema)), sampler, VOCAB_SIZE, seed)
    value = json.loads(tokenizer.decode(token_ids))
    assert is_valid(value, schema), (value, schema)


@settings(max_examples=30)
@given(schema=object_schemas, seed=st.integers(0, 1000), data=st.data())
def test_another_worker_goes_on_after_any_token(
    guidance: Guidance, sampler: Sampler, schema: Schema, seed: int, data: st.DataObject
) -> None:
    token_ids = write(guide_of(guidance, grammar_of(schema)), sampler, VOCAB_SIZE, seed)
    cut = data.draw(st.integers(0, len(token_ids)))
    first, heir = (guide_of(guidance, grammar_of(schema), tuple(token_ids[:n])) for n in (0, cut))
    for token_id in token_ids[:cut]:
        first.accept(token_id)
    for token_id in token_ids[cut:]:
        assert heir.mask() == first.mask()
        heir.accept(token_id)
        first.accept(token_id)
    assert heir.is_complete == first.is_complete


def test_a_model_with_its_own_tokenizer(real_guidance: Guidance, model_folder: Path) -> None:
    words = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    schema = {"type": "object", "properties": {"é😀": {"enum": ["日本", "<|im_end|>"]}}, "required": ["é😀"]}
    grammar = '%llguidance {"no_forcing": true}\n' + grammar_of(schema | {"additionalProperties": False})
    for seed in range(5):
        token_ids = write(guide_of(real_guidance, grammar), Sampler(49152, CPU), 49152, seed)
        assert json.loads(words.decode(token_ids))["é😀"] in ("日本", "<|im_end|>")
        assert not {0, 1, 2} & set(token_ids), "a control token's name is text"


def test_rows_without_a_guide_are_left_as_they_are(guidance: Guidance, sampler: Sampler) -> None:
    logits = torch.randn(3, VOCAB_SIZE)
    draws = [Draw(Sampling(temperature=0), 0, guide) for guide in (None, guide_of(guidance, 'start: "7"'), None)]
    first, second, third = sampler.sample(logits.clone(), draws)
    assert (first, third) == (int(logits[0].argmax()), int(logits[2].argmax()))
    assert second == ord("7") - 0x20


def test_top_k_and_top_p_are_those_of_what_is_allowed(guidance: Guidance, sampler: Sampler) -> None:
    logits = torch.zeros(1, VOCAB_SIZE)
    logits[0, 0] = 50.0  # a space, which is not allowed
    guide = guide_of(guidance, 'start: "a" | "b"')
    for seed in range(20):
        for limits in (Sampling(top_k=1, seed=seed), Sampling(top_p=0.1, seed=seed)):
            (token,) = sampler.sample(logits.clone(), [Draw(limits, 0, guide)])
            assert token in (ord("a") - 0x20, ord("b") - 0x20)


@pytest.mark.parametrize(
    ("grammar", "generated_ids", "said"),
    [
        ("nonsense", (), "cannot be compiled"),
        ("start: <[5000]>", (), "cannot be compiled"),
        (grammar_of({"not": {}}), (), 'Unimplemented keys: ["not"]'),
        ('start: "yes"', (1, 2), "does not fit"),
    ],
)
def test_it_refuses(guidance: Guidance, grammar: str, generated_ids: tuple[int, ...], said: str) -> None:
    with pytest.raises(GrammarError, match=said.replace("[", r"\[")):
        guide_of(guidance, grammar, generated_ids)


def test_it_refuses_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(GrammarError, match="tokenizer"):
        guide_of(Guidance(tmp_path / "tokenizer.json", 97, [1]), 'start: "a"')


HOSTILE: list[Schema] = [
    {"type": "string", "pattern": "^(.*a.{200}){3}$"},
    {"type": "string", "pattern": "^.*[aeiou].{300}$"},
    {"anyOf": [{"type": "string", "pattern": f"^.*{chr(97 + n)}.{{{50 + n}}}$"} for n in range(26)]},
    {"type": "object", "patternProperties": {"^.*[aeiou].{300}$": {"type": "string"}}, "additionalProperties": False},
    {"type": "array", "minItems": 100_000, "items": {"type": "string", "pattern": "^.*[aeiou].{300}$"}},
    {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(1000)}},
    {"type": "integer", "multipleOf": 999_983, "minimum": 1},
]


@pytest.mark.parametrize("schema", HOSTILE, ids=lambda schema: str(schema)[:50])
def test_a_hostile_schema_costs_little(real_guidance: Guidance, schema: Schema) -> None:
    """The library's limits come to hundredths of a second; the machine may be busy."""
    guide_of(real_guidance, 'start: "a"')  # the tokenizer is read
    started = time.monotonic()
    try:
        guide = guide_of(real_guidance, grammar_of(schema))
    except GrammarError:
        guide = None
    assert time.monotonic() - started < 5
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        if guide is None or guide.problem or guide.is_complete:
            break
        started = time.monotonic()
        mask = guide.mask()
        assert time.monotonic() - started < 1
        allowed = [n for n in torch.randperm(49152, generator=generator).tolist() if mask[n // 8] >> (n % 8) & 1]
        if not allowed:
            break  # too hard from here on: the engine ends such a request
        guide.accept(allowed[0])


CITY: Schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}


def asking(name: str, grammar: str = "", *, required: bool = True, **changes: Any) -> EngineRequest:
    held = Grammar(grammar, required) if grammar else None
    return tools.request(name, 5, 60, grammar=held, sampling=WARM, **changes)


@pytest.fixture
def engine(tokenizer: Tokenizer, models: Path) -> TransformersEngine:
    return load(models, max_batch_tokens=64, kv_cache_tokens=2048)


def test_grammars_of_their_own_in_one_batch(engine: TransformersEngine, tokenizer: Tokenizer) -> None:
    alone = run(engine, asking("free")).tokens["free"]
    grammars = {"city": grammar_of(CITY), "free": "", "word": 'start: "a" | "b"'}

    answers = run(engine, *(asking(name, grammar) for name, grammar in grammars.items()))

    assert is_valid_city(tokenizer.decode(list(answers.tokens["city"])))
    assert tokenizer.decode(list(answers.tokens["word"])) in ("a", "b")
    assert answers.tokens["free"] == alone
    assert answers.finish["city"] == answers.finish["word"] == "end_of_text"


def is_valid_city(text: str) -> bool:
    value = json.loads(text)
    return set(value) == {"city", "unit"} and value["unit"] in ("C", "F") and len(value["city"]) <= 8


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_continued_answer_is_the_one_it_would_have_been(engine: TransformersEngine, cut: int) -> None:
    whole = run(engine, asking("a", grammar_of(CITY))).tokens["a"]
    rest = run(engine, asking("a", grammar_of(CITY), generated_ids=whole[:cut])).tokens["a"]
    assert whole[:cut] + rest == whole


def test_an_answer_that_was_complete_ends_at_once(engine: TransformersEngine) -> None:
    whole = run(engine, asking("a", grammar_of(CITY))).tokens["a"]
    answers = run(engine, asking("a", grammar_of(CITY), generated_ids=whole))
    assert (answers.finish["a"], answers.tokens["a"]) == ("end_of_text", ())


def test_a_limit_cuts_it(engine: TransformersEngine) -> None:
    answers = run(engine, tools.request("a", 5, 3, grammar=Grammar(grammar_of(CITY))))
    assert (answers.finish["a"], len(answers.tokens["a"])) == ("max_tokens", 3)


def test_a_grammar_that_does_not_compile_is_an_error_of_its_own(engine: TransformersEngine) -> None:
    answers = run(engine, asking("bad", "nonsense"), asking("good", 'start: "a"'))
    assert (answers.finish["bad"], answers.finish["good"]) == ("error", "end_of_text")
    assert "cannot be compiled" in answers.errors["bad"]


def test_whatever_happens_in_compiling_a_grammar_ends_that_request_alone(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(guidance_module, "LLMatcher", fail)
    answers = run(engine, asking("bad", 'start: "a"'), tools.request("good"))
    assert (answers.finish["bad"], answers.errors["bad"]) == ("error", "The grammar cannot be compiled.")
    assert answers.finish["good"] in ("max_tokens", "end_of_text")


def test_a_grammar_that_gets_too_hard_is_an_error_that_says_so(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guidance_module, "LIMITS", LLParserLimits(max_lexer_states=40, verbose_errors=False))
    answers = run(engine, asking("hard", grammar_of(CITY)), asking("easy", 'start: "a"'))
    assert answers.finish == {"hard": "error", "easy": "end_of_text"}
    assert answers.errors["hard"].startswith("The grammar cannot be followed further: lexer error: too many states")


@pytest.mark.parametrize("grammar", ["nonsense", grammar_of(CITY)])
def test_a_grammar_that_only_helps_ends_nothing(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch, grammar: str
) -> None:
    monkeypatch.setattr(guidance_module, "LIMITS", LLParserLimits(max_lexer_states=40, verbose_errors=False))
    answers = run(engine, asking("a", grammar, required=False))
    assert answers.finish["a"] in ("max_tokens", "end_of_text")
    assert answers.tokens["a"]
    engine._guidance = None
    assert run(engine, asking("a", grammar, required=False)).finish["a"] in ("max_tokens", "end_of_text")


def test_a_request_can_be_cancelled_while_its_grammar_is_compiled(engine: TransformersEngine) -> None:
    for number in range(20):
        engine.submit(asking(str(number), grammar_of(CITY)))
        engine.cancel(str(number))
    assert engine.stats().waiting == 0
    assert run(engine, asking("a", grammar_of(CITY))).finish["a"] == "end_of_text"


def test_an_engine_without_a_tokenizer_says_so(engine: TransformersEngine) -> None:
    engine._guidance = None
    answers = run(engine, asking("a", 'start: "a"'))
    assert (answers.finish["a"], "tokenizer" in answers.errors["a"]) == ("error", True)
