"""What safety costs: added TTFT and TBT, CPU per token, for each check and for the built-in policies.

    .venv/bin/python benchmarks/safety.py                   some eight minutes
    .venv/bin/python benchmarks/safety.py --quick           two
    .venv/bin/python benchmarks/safety.py --parts gate      no server: the gate alone
    .venv/bin/python benchmarks/safety.py --transformer FOLDER     with a classifier of your own, too

Part `gate`: streams of real tokens of prose go through the safety gate side by side, as a worker sends them: the time
per token of each check, and how many tokens are held back on average. Part `serve`: `manage.py serve` with the default
model in a temporary home, a key for each policy; closed loops of clients take turns between the policies, so that all
see the same machine. CPU is the worker's, per token. Prints Markdown. Linux only.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from asking import Felt, ask
from gateway import machine, say
from processes import MODEL, Target, cpu_s, environment_in, manage, model_folder, serving
from sides import Side, sluice
from tokenizers import Tokenizer

from config.loadtest.plan import PROMPT
from inference.detokenizer import Detokenizer, Vocabulary
from inference.protocol.policies import Policy, Rule, built_in
from inference.safety.checks import Checks
from inference.safety.classifiers import open_classifier
from inference.safety.gate import SafetyGate
from inference.safety.judge import judge
from inference.text import Piece

PARTS = ("gate", "serve")
STREAMS = (1, 8, 32)
READY_S = 900.0
PHRASES = 5000
PROSE = (
    "The keeper of the lighthouse climbed the 214 stairs once more, and looked out over the dark water. Nobody had "
    "written since March; the last letter, from his sister in Bergen, lay on the table beside a cup of cold coffee. "
    "He thought of the winter of 1998, when the mail boat came on Tuesdays at 11:30, if it came at all. "
)


def checks_to_try(transformer: str) -> dict[str, Checks]:
    """Return each check by itself, and the built-in policies, by what a reader calls them."""
    blocked = Rule(check="patterns", action="enforce", categories=("blocklist",))
    personal = Rule(check="patterns", action="enforce", categories=("personal_data",))
    policies = {
        "secrets": _policy(Rule(check="patterns", action="enforce", categories=("secrets",))),
        "personal data": _policy(personal),
        f"blocklist of {PHRASES:,} phrases": replace(_policy(blocked), blocklists={"list": "1"}),
        "toxicity, once per block": _policy(Rule(check="toxicity", action="flag", threshold=0.9)),
        "toxicity, look-ahead of 8": _policy(Rule(check="toxicity", action="enforce", threshold=0.9)),
    }
    if transformer:
        rule = Rule(check="transformer", action="enforce", threshold=0.999, model=transformer)
        policies["transformer, look-ahead of 8"] = _policy(rule)
    policies |= {f"policy `{name}`": policy for name, policy in built_in({"list": "1"}).items()}
    phrases = {"list": [f"forbidden phrase number {number}" for number in range(PHRASES)]}
    return {
        name: Checks.of(policy, phrases, b"key", lambda check, model: open_classifier(check, model, "cpu"))
        for name, policy in policies.items()
    }


def _policy(rule: Rule) -> Policy:
    return Policy(name="one", output=(rule,))


def pieces_of(folder: Path, tokens: int) -> list[Piece]:
    """Return a prose answer as the detokeniser lets it out."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(PROSE * (tokens // 60 + 1), add_special_tokens=False).ids[:tokens]
    detokenizer = Detokenizer(Vocabulary.load(folder), None)
    return [piece for token_id in ids if (piece := detokenizer.push(token_id))]


@dataclass(frozen=True, slots=True)
class Passing:
    """How it went: µs per token in all, how many tokens were held back on average, and before the first left."""

    us: float
    held: float
    first: int


def through_the_gate(checks: Checks | None, pieces: list[Piece], streams: int) -> Passing:
    """Send an answer through so many gates at once, a step at a time."""
    gates = [SafetyGate(checks, defaultdict(float)) for _ in range(streams)]
    given = left = held = first = 0
    begun = time.process_time()  # what others do on this machine does not count
    for step, piece in enumerate(pieces):
        for gate in gates:
            gate.push(piece)
        judge(each for gate in gates for each in gate.asks())
        left += sum(len(free.token_ids) for gate in gates for free in gate.release())
        given += streams * len(piece.token_ids)
        held += given - left
        first = first or (step + 1 if left else 0)
    for gate in gates:
        gate.end()
    judge(each for gate in gates for each in gate.asks())
    left += sum(len(free.token_ids) for gate in gates for free in gate.release())
    seconds = time.process_time() - begun
    assert left == given, "what is safe has to leave"
    return Passing(seconds / given * 1e6, held / len(pieces) / streams, first)


def gate_rows(options: argparse.Namespace) -> Iterator[str]:
    yield f"| check | {' | '.join(f'µs per token, {n} streams' for n in STREAMS)} | tokens held | first leaves at |"
    yield f"| --- {'| --- ' * (len(STREAMS) + 2)}|"
    pieces = pieces_of(model_folder(MODEL), 200 if options.quick else 600)
    for name, checks in {"none": None, **checks_to_try(options.transformer)}.items():
        say(f"the gate: {name} …")
        best = [
            min((through_the_gate(checks, pieces, n) for _ in range(options.rounds)), key=lambda passing: passing.us)
            for n in STREAMS
        ]
        costs = " | ".join(f"{passing.us:.1f}" for passing in best)
        yield f"| {name} | {costs} | {best[0].held:.1f} | {best[0].first} |"


@dataclass(kw_only=True)
class Measured:
    """One policy's answers, and the worker's CPU time for them, in s."""

    felt: Felt
    worker_s: float = 0.0
    tokens: int = 0


class Serving:
    """The policies in turns on one server."""

    def __init__(self, target: Target, options: argparse.Namespace) -> None:
        self._target, self._options = target, options
        self._numbers = itertools.count(int(time.time()) % 100_000 * 1000)
        self._sides = {policy: self._side(policy) for policy in ("off", "standard", "strict-output", "strict")}

    def rows(self) -> Iterator[str]:
        yield "| streams | policy | TTFT p50 ms | added | TBT p50 | p99 | worker's ms per token | ratio | tokens/s |"
        yield "| --- " * 9 + "|"
        for streams in STREAMS:
            measured = {policy: Measured(felt=Felt()) for policy in self._sides}
            for number in range(self._options.rounds + 1):
                say(f"{streams} streams, round {number} …")
                order = list(self._sides) if number % 2 else list(self._sides)[::-1]
                for policy in order:
                    self._ask(policy, streams, measured[policy] if number else Measured(felt=Felt()))
            base = measured["off"]
            for policy, one in measured.items():
                yield _row(streams, policy, one, base)

    def _ask(self, policy: str, streams: int, measured: Measured) -> None:
        side, worker = self._sides[policy], self._target.others["worker"]
        count = max(4, streams * self._options.per_client)
        bodies = [side.body("", f"{PROMPT} #{next(self._numbers)}", 64) for _ in range(count)]
        before, known = cpu_s(worker), len(measured.felt.traces)
        ask(side, bodies, streams, measured.felt)
        measured.worker_s += cpu_s(worker) - before
        measured.tokens += sum(trace.tokens for trace in measured.felt.traces[known:])

    def _side(self, policy: str) -> Side:
        environment = self._target.environment
        assert environment is not None
        key = manage(environment, "createkey", f"safety-{policy}", "--policy", policy)
        return replace(sluice(replace(self._target, key=key)), name=policy)


def _row(streams: int, policy: str, one: Measured, base: Measured) -> str:
    felt, cpu, base_cpu = one.felt, one.worker_s / one.tokens * 1000, base.worker_s / base.tokens * 1000
    ttft, errors = felt.ttft_ms(0.5), f" errors: {felt.errors}" if felt.errors else ""
    cells = [f"{ttft:.1f}", f"{ttft - base.felt.ttft_ms(0.5):+.1f}", *(f"{felt.tbt_ms(q):.1f}" for q in (0.5, 0.99))]
    cells += [f"{cpu:.2f}", f"{cpu / base_cpu:.3f}", f"{felt.tokens_per_s:.0f}"]
    return f"| {streams} | {policy} | {' | '.join(cells)} |{errors}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="gate,serve")
    parser.add_argument("--rounds", type=int, default=5, help="how often the policies take turns (5)")
    parser.add_argument("--transformer", default="", metavar="FOLDER", help="a sequence-classification model to try")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works")
    options = parser.parse_args()
    if unknown := set(options.parts.split(",")) - set(PARTS):
        parser.error(f"--parts: expected some of {','.join(PARTS)}, not {','.join(sorted(unknown))}")
    options.per_client = 1 if options.quick else 2
    if options.quick:
        options.rounds = 1
    return options


def main() -> None:
    options = _options()
    print(f"{machine()}.\n", flush=True)
    if "gate" in options.parts:
        for line in gate_rows(options):
            print(line, flush=True)
        print()
    if "serve" in options.parts:
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
            say("starting Sluice …")
            with serving(environment_in(Path(folder)), "--engine", "transformers", ready_s=READY_S) as target:
                for line in Serving(target, options).rows():
                    print(line, flush=True)


if __name__ == "__main__":
    main()
