"""Answers under a policy: what leaves, what is told, and how they end, whatever the tokens and whoever runs them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from inference.detokenizer import Vocabulary
from inference.engines.base import StepOutput
from inference.protocol.policies import Policy, Rule, Side
from inference.protocol.reports import common_of
from inference.protocol.tools import ToolUse
from inference.safety.checks import Checks
from inference.safety.classifiers.base import Classifier
from inference.safety.gate import SafetyGate
from inference.safety.patterns import Hit, PatternScan
from inference.text import Piece
from inference.toolcalls.parser import ToolCalls
from tests.inference.logs import Log, byte_tokenizer, feed

CARD = "4111 1111 1111 1111"
SAFE = "The weather is lovely today, and now "
SECRETS = Rule(check="patterns", action="enforce", categories=("secrets", "personal_data.card"))
MAIL = Rule(check="patterns", action="flag", categories=("personal_data.email",))


class WordJudge:
    """Takes texts for bad by one word."""

    categories: tuple[str, ...] = ("toxicity",)
    window = 60

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.broken = False

    def scores(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        if self.broken:
            raise RuntimeError("out of order")
        self.texts += texts
        return [(0.99 if "moron" in text else 0.0,) for text in texts]


JUDGE = WordJudge()
JUDGED = Rule(check="toxicity", action="enforce", threshold=0.9)


def checks_of(*output: Rule, prompt: tuple[Rule, ...] = (), lookahead_tokens: int = 8, judge: Classifier = JUDGE,
              keep_text_days: int = 0) -> Checks:  # fmt: skip
    policy = Policy(
        name="p", prompt=prompt, output=output, lookahead_tokens=lookahead_tokens, keep_text_days=keep_text_days
    )
    return Checks.of(policy, {}, b"key", lambda check, model: judge)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    return Vocabulary(tokenizer)


@pytest.fixture
def log(tokenizer: Tokenizer, vocabulary: Vocabulary) -> Log:
    return Log(tokenizer, vocabulary)


def test_it_works(log: Log) -> None:
    generation = log.generation(checks=checks_of(SECRETS))
    log.say(generation, f"{SAFE}{CARD} and more", finish="end_of_text")
    assert log.text == SAFE
    assert log.events[-2]["delta"] == {
        "stop_reason": "safety", "stop_sequence": None,
        "stop_details": {"type": "safety", "category": "personal_data.card", "explanation": None, "check": "patterns"},
    }  # fmt: skip
    settlement = generation.settlement(common_of(generation.request), "w")
    assert (settlement.outcome, settlement.output_tokens) == ("safety", len(SAFE))
    assert settlement.checks["patterns"] > 0
    assert settlement.held_tokens >= len(CARD) - 1
    (trigger,) = generation.triggers
    assert (trigger.position, trigger.side, trigger.action, trigger.text) == (len(SAFE), "output", "enforce", "")
    assert trigger.span
    assert CARD not in trigger.encode()


def test_what_is_safe_leaves_as_it_came_and_when_it_came(log: Log) -> None:
    generation = log.generation(checks=checks_of(SECRETS))
    log.say(generation, "Call 4111 times, ")
    assert log.text == "Call 4111 times, "
    log.say(generation, "mail to no one.", finish="end_of_text")
    assert log.text == "Call 4111 times, mail to no one."
    assert generation.triggers == []


def test_a_flag_lets_pass_and_is_told_once(log: Log) -> None:
    text = "Write to ann.example@example.org or to no one."
    generation = log.generation(checks=checks_of(MAIL, keep_text_days=3))
    log.say(generation, text, finish="end_of_text")
    assert log.text == text
    assert generation.outcome == "end_turn"
    (trigger,) = generation.triggers
    assert (trigger.action, trigger.position, trigger.text) == ("flag", 9, "ann.example@example.org")


@given(cuts=st.lists(st.integers(1, 120), max_size=8), tail=st.sampled_from(["", " Bye.", "!"]))
def test_the_decision_does_not_depend_on_tokens(tokenizer: Tokenizer, cuts: list[int], tail: str) -> None:
    log = Log(tokenizer, Vocabulary(tokenizer))
    generation = log.generation(checks=checks_of(MAIL, SECRETS))
    ids = log.ids(f"Mail ann@example.org. {SAFE}{CARD}{tail}")
    places = [0, *sorted(cut for cut in set(cuts) if cut < len(ids)), len(ids)]
    for begin, end in pairwise(places):
        if generation.outcome is None:
            feed(generation, StepOutput("msg_1", ids[begin:end], "end_of_text" if end == len(ids) else None))
    log.drain(generation)
    assert log.text == f"Mail ann@example.org. {SAFE}"
    assert generation.outcome == "safety"
    assert [t.category for t in generation.triggers] == ["personal_data.email", "personal_data.card"]


def test_a_classifier_sees_ahead_of_what_leaves(log: Log) -> None:
    generation = log.generation(checks=checks_of(JUDGED))
    ahead = "You are quite nice to all of us and not at all a "
    log.say(generation, ahead)
    said = log.text
    assert 20 < len(said) <= len(ahead) - 8
    assert ahead.startswith(said)
    log.say(generation, "moron ", finish="end_of_text")
    assert log.text == said
    assert generation.outcome == "safety"


def test_the_end_of_a_block_sets_its_text_free(log: Log) -> None:
    log.say(log.generation(checks=checks_of(JUDGED)), "All is well.", finish="end_of_text")
    assert log.text == "All is well."


def test_what_only_flags_holds_nothing_back_and_is_asked_once(log: Log) -> None:
    judge = WordJudge()
    generation = log.generation(checks=checks_of(Rule(check="toxicity", action="flag"), judge=judge))
    log.say(generation, "You moron. ")
    assert (log.text, judge.texts) == ("You moron. ", [])
    log.say(generation, "Really.", finish="end_of_text")
    assert judge.texts == ["You moron. Really."]
    assert [(t.category, t.action, t.score) for t in generation.triggers] == [("toxicity", "flag", 0.99)]
    assert generation.outcome == "end_turn"


def test_text_before_a_pattern_is_judged_too(log: Log) -> None:
    log.say(log.generation(checks=checks_of(SECRETS, JUDGED)), f"Hello moron {CARD}", finish="end_of_text")
    assert "moron" not in log.text
    log.entries.clear()
    log.say(log.generation(checks=checks_of(SECRETS, JUDGED)), f"Hello friend {CARD}", finish="end_of_text")
    assert log.text == "Hello friend "


def test_a_check_that_cannot_run_lets_nothing_pass(log: Log) -> None:
    judge = WordJudge()
    judge.broken = True
    generation = log.generation(checks=checks_of(JUDGED, judge=judge))
    log.say(generation, "All is well.", finish="end_of_text")
    assert log.text == ""
    assert log.events[-1]["error"] == {"type": "api_error", "message": "The safety check toxicity could not run."}
    assert generation.outcome == "error"
    assert [(t.check, t.category, t.action) for t in generation.triggers] == [("toxicity", "check_failed", "enforce")]


@pytest.mark.parametrize(("side", "outcome"), [("enforce", "safety"), ("flag", None)])
def test_a_prompt_is_judged_before_the_model_begins(log: Log, side: str, outcome: str | None) -> None:
    rule = Rule(check="toxicity", action="enforce" if side == "enforce" else "flag", threshold=0.9)
    generation = log.generation(checks=checks_of(prompt=(rule,)), texts=("Be kind.", "You moron!"))
    assert generation.outcome == outcome
    (trigger,) = generation.triggers
    prompt: Side = "prompt"
    assert (trigger.side, trigger.position) == (prompt, len("Be kind."))
    log.drain(generation)
    assert log.kinds == (["message_delta", "message_stop"] if outcome else [])


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_an_heir_decides_alike_and_tells_the_same(log: Log, cut: int) -> None:
    rules, text = checks_of(MAIL, SECRETS, JUDGED), f"Mail ann@example.org. {SAFE}{CARD}."
    ids = log.ids(text)
    dying = log.generation(checks=rules)
    for token_id in ids[:cut]:
        feed(dying, StepOutput("msg_1", (token_id,)))
        log.drain(dying)
    heir = log.generation(attempt=2, checks=rules)
    for token_id in ids[len(heir.continued_from) :]:
        if heir.outcome is None:
            feed(heir, StepOutput("msg_1", (token_id,)))
            log.drain(heir)
    if heir.outcome is None:
        feed(heir, StepOutput("msg_1", (), "end_of_text"))
        log.drain(heir)
    assert log.text == f"Mail ann@example.org. {SAFE}"
    assert heir.outcome == "safety"
    told = {trigger.id for trigger in (*dying.triggers, *heir.triggers)}
    assert told == {"msg_1:patterns:output:5", f"msg_1:patterns:output:{len(text) - len(CARD) - 1}"}


def call(card: str) -> str:
    inputs = f'{{"to": "Ann", "card": "{card}", "more": 1}}'
    return f'<tool_call>\n{{"name": "pay", "arguments": {inputs}}}\n</tool_call>'


TOOLS = ToolUse(format="hermes", names=("pay",))


@pytest.mark.parametrize("card", [CARD, r"\u0034111\u0020\u0031111 1111 1111", "4111111111111111"])
def test_escapes_in_a_call_hide_nothing(log: Log, card: str) -> None:
    generation = log.generation(checks=checks_of(SECRETS), tools=TOOLS)
    log.say(generation, f"I pay. {call(card)}", finish="end_of_text")
    written = "".join(e["delta"].get("partial_json", "") for e in log.events if e["type"] == "content_block_delta")
    assert written == '{"to": "Ann", "card": "'
    assert log.events[-1]["type"] == "error"
    assert log.kinds[-3:] == ["stop", "start", "error"]  # the call stays open
    assert generation.outcome == "safety"


def test_a_safe_call_is_not_changed(log: Log) -> None:
    generation = log.generation(checks=checks_of(SECRETS, JUDGED), tools=TOOLS)
    log.say(generation, call("none"), finish="end_of_text")
    written = "".join(e["delta"]["partial_json"] for e in log.events if e["type"] == "content_block_delta")
    assert json.loads(written) == {"to": "Ann", "card": "none", "more": 1}
    assert generation.outcome == "tool_use"


def test_a_call_that_begins_with_what_is_flagged_is_not_begun(log: Log) -> None:
    generation = log.generation(checks=checks_of(Rule(check="toxicity", action="enforce")), tools=TOOLS)
    log.say(generation, call("moron"), finish="end_of_text")
    assert "start" not in log.kinds
    assert log.events[-2]["delta"]["stop_reason"] == "safety"


@given(cuts=st.lists(st.integers(1, 150), max_size=4), card=st.sampled_from([CARD, r"\u0034111 1111 1111 1111"]))
def test_a_call_that_was_cut_stays_open_whatever_the_steps(tokenizer: Tokenizer, cuts: list[int], card: str) -> None:
    text = f"I pay. {call(card)}"
    places = [0, *sorted(cut for cut in set(cuts) if cut < len(text)), len(text)]
    gate = SafetyGate(checks_of(SECRETS), defaultdict(float))
    calls = ToolCalls(TOOLS)
    left = []
    for number, (begin, end) in enumerate(pairwise(places)):
        for piece in calls.push(Piece((number,), text[begin:end])):
            gate.push(piece)
        left += list(gate.release())
    kinds = [kind for piece in left for kind, said in piece.parts() if kind in ("start", "end")]
    assert kinds == ["start"]
    assert (
        "".join(said for piece in left for kind, said in piece.parts() if kind == "input") == '{"to": "Ann", "card": "'
    )


@pytest.mark.parametrize("act", ["push", "flush"])
def test_patterns_that_cannot_be_looked_for_let_nothing_pass(
    log: Log, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    def fail(*_: object) -> list[Hit]:
        raise RuntimeError("out of order")

    generation = log.generation(checks=checks_of(SECRETS, JUDGED))
    log.say(generation, SAFE * 3)
    said = log.text
    monkeypatch.setattr(PatternScan, act, fail)
    log.say(generation, "more.", finish="end_of_text")
    assert log.text in (said, SAFE * 3, f"{SAFE * 3}more.")
    assert log.events[-1]["error"]["message"] == "The safety check patterns could not run."
    assert [(t.check, t.category) for t in generation.triggers] == [("patterns", "check_failed")]


def test_what_is_before_it_is_judged_all_the_same(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> list[Hit]:
        raise RuntimeError("out of order")

    generation = log.generation(checks=checks_of(SECRETS, JUDGED))
    log.say(generation, "You moron ")
    monkeypatch.setattr(PatternScan, "push", fail)
    log.say(generation, "x", finish="end_of_text")
    assert "moron" not in log.text
    assert generation.outcome == "safety"


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_who_asks_for_no_more_hides_nothing(log: Log, how: str) -> None:
    generation = log.generation(checks=checks_of(Rule(check="toxicity", action="flag"), MAIL))
    log.say(generation, "You moron, write to ann@example.org")
    if how == "cancel":
        generation.cancel("client_gone")
    else:
        generation.fail("timeout", kind="timeout_error", message="The request took too long.")
    log.drain(generation)
    assert {t.category for t in generation.triggers} == {"toxicity", "personal_data.email"}
    assert log.text == "You moron, write to ann@example.org"
    assert generation.outcome == ("client_gone" if how == "cancel" else "timeout")


def test_what_never_left_is_not_told_of_at_a_cancel(log: Log) -> None:
    generation = log.generation(checks=checks_of(JUDGED))
    log.say(generation, "You moron")
    generation.cancel("cancelled")
    assert (log.text, generation.triggers) == ("", [])


def test_an_heir_tells_what_the_dead_would_have_flagged(log: Log) -> None:
    both = (JUDGED, Rule(check="toxicity", action="flag", threshold=0.5))

    class Stern(WordJudge):
        """Takes harmless texts for bad by another word, though not very."""

        def scores(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
            return [(0.7 if "oaf" in text else 0.0,) for text in texts]

    rules = checks_of(*both, judge=Stern(), lookahead_tokens=0)
    dying = log.generation(checks=rules)
    log.say(dying, f"You oaf, {SAFE * 3}")
    assert "oaf" in log.text
    heir = log.generation(attempt=2, checks=rules)
    log.say(heir, "the end.", finish="end_of_text")
    assert [(t.category, t.action, t.position) for t in heir.triggers] == [("toxicity", "flag", 0)]


def test_it_is_told_what_waits_longer_than_usual(log: Log) -> None:
    generation = log.generation(checks=checks_of(SECRETS))
    log.say(generation, SAFE)
    assert generation.num_waiting == 0
    log.say(generation, CARD[:-1])
    assert generation.num_waiting == len(CARD) - 1
    log.say(generation, "no card", finish="end_of_text")
    assert generation.num_waiting == 0


def test_before_anything_has_left_all_that_waits_is_told(log: Log) -> None:
    generation = log.generation(checks=checks_of(JUDGED))
    log.say(generation, "It was")
    assert generation.num_waiting == len("It was")
    log.say(generation, " a dark and stormy night, and the rain fell down, ")
    assert generation.num_waiting == 0, "no more than the look-ahead"
