"""What an event costs in the gateway, beside the same event in plain Daphne; both measured in one run.

    .venv/bin/python benchmarks/gateway.py                         all parts, some five minutes
    .venv/bin/python benchmarks/gateway.py --quick                 a minute
    .venv/bin/python benchmarks/gateway.py --parts load --streams 100,400 --seconds 10

Starts `manage.py serve` with the simulated engine in a temporary home (the model's tokenizer comes from `var/models`),
and `raw_app.py` under Daphne, each on a free port of 127.0.0.1; loads them from `streams.py`, a process of its own;
prints Markdown. CPU time is from /proc/PID/stat, so Linux only. All processes end with the run.

Parts: `load` CPU per event and memory per stream · `pair` the same total rate in 1,000 and in 100 streams · `ttft` what
is added to the simulated prefill · `prompts` and `admin` how steady running streams are while 100 KB prompts arrive and
a large admin page is built.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from disturbing import PROMPT_BYTES, Admin, first_tokens, post_prompts
from measuring import Window, streaming, tokens_for
from processes import Target, plain_daphne, product, rss

PARTS = ("load", "pair", "ttft", "prompts", "admin")
PREFILL_MS = 20.0
STEADY = 100  # streams that run while something else goes on
PROBED = 50  # streams that run while time to first token is measured
PAIR = ((1000, 5.0), (100, 50.0))


class Benchmark:
    """One run: measures part by part, and collects lines of Markdown."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lines: list[str] = []
        self._windows: dict[tuple[int, float], tuple[Window, Window]] = {}

    def run(self) -> None:
        parts, rate = self.options.parts, self.options.rate
        loads = [(streams, rate) for streams in self.options.streams] if "load" in parts else []
        loads += [load for load in PAIR if "pair" in parts and load not in loads]
        rows: list[str] = []
        for pace in dict.fromkeys([*([rate] if set(parts) - {"pair"} else []), *(rate for _, rate in loads)]):
            with product(rate=pace, prefill_ms=PREFILL_MS, gateways=self.options.gateways) as sluice:
                base = self._warm_up(sluice, pace)
                for streams in [streams for streams, other in loads if other == pace]:
                    rows.append(self._load(sluice, streams, pace, base))
                if pace == rate:
                    self._rest(sluice, rate)
        if rows:
            self.lines = [*_HEAD, *rows, *self._compared(), "", *self.lines]

    def _rest(self, sluice: Target, rate: float) -> None:
        for part, measure in {"ttft": self._ttft, "prompts": self._prompts, "admin": self._admin}.items():
            if part in self.options.parts:
                say(f"{part} …")
                self.lines += measure(sluice, rate)

    def _warm_up(self, sluice: Target, rate: float) -> int:
        """Run a few streams; return the memory of a gateway that has nothing to do."""
        with streaming(sluice, streams=5, rate=rate, seconds=1) as client:
            client.window(1)
        time.sleep(1)
        return sum(map(rss, sluice.servers))

    def _load(self, sluice: Target, streams: int, rate: float, base: int) -> str:
        seconds = self.options.seconds
        say(f"{streams} streams of {rate:g} events/s: plain Daphne …")
        with (
            plain_daphne(events=tokens_for(streams, rate, seconds), rate=rate) as daphne,
            streaming(daphne, streams=streams, rate=rate, seconds=seconds) as client,
        ):
            floor = client.window(seconds)
        say(f"{streams} streams of {rate:g} events/s: Sluice …")
        with streaming(sluice, streams=streams, rate=rate, seconds=seconds) as client:
            ours = client.window(seconds)
        time.sleep(1)  # until what has lost its client has ended
        self._windows[streams, rate] = (floor, ours)
        return _row(floor, ours, base)

    def _compared(self) -> Iterator[str]:
        if "pair" in self.options.parts:
            many, few = (self._windows[load][1].cpu_us for load in PAIR)
            yield ""
            yield f"1,000 x 5 against 100 x 50 events/s: {many:.1f} against {few:.1f} µs, {many / few:.2f} times."

    def _ttft(self, sluice: Target, rate: float) -> Iterator[str]:
        count = 40 if self.options.quick else 100
        with streaming(sluice, streams=PROBED, rate=rate, seconds=30):
            p50, p99, workers = first_tokens(sluice, count)
        yield f"Added TTFT at {PROBED} streams: p50 {p50 - PREFILL_MS:.1f} ms, p99 {p99 - PREFILL_MS:.1f} ms."
        if workers is not None:
            yield (
                f"Of the p50, {workers - PREFILL_MS:.1f} ms are the wait for the simulated engine's next step "
                f"(it has one each {1000 / rate:g} ms), {p50 - workers:.1f} ms ours."
            )

    def _prompts(self, sluice: Target, rate: float) -> Iterator[str]:
        seconds = self.options.seconds
        statuses: dict[int, int] = {}
        with streaming(sluice, streams=STEADY, rate=rate, seconds=seconds * 2) as client:
            alone = client.window(seconds)
            disturbed = client.window(seconds, lambda: statuses.update(post_prompts(sluice, seconds)))
        told = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
        yield f"TBT of {STEADY} streams alone: {_tbt(alone)}."
        yield f"While prompts of {PROMPT_BYTES // 1000} KB arrive ({told}): {_tbt(disturbed)}."

    def _admin(self, sluice: Target, rate: float) -> Iterator[str]:
        seconds = self.options.seconds
        admin = Admin(sluice)
        times: list[float] = []
        admin.look(0.1)
        with streaming(sluice, streams=STEADY, rate=rate, seconds=seconds * 2) as client:
            disturbed = client.window(seconds, lambda: times.extend(admin.look(seconds)))
        mean = sum(times) / len(times) * 1000
        told = f"{len(times)} times, {mean:.0f} ms each"
        yield f"While an admin page of 100 records is built ({told}): {_tbt(disturbed)}."


_HEAD = [
    "| streams x events/s | plain Daphne, µs CPU per event | Sluice's gateway | ratio | events/s of both "
    "| memory a stream | TBT p99 of both | cores used: gateway, worker, Redis, client; by others during both |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
]


def _row(floor: Window, ours: Window, base: int) -> str:
    cores = ", ".join(f"{ours.shares.get(name, 0):.2f}" for name in ("server", "worker", "Redis", "client"))
    cores += f"; {floor.foreign:.2f}, {ours.foreign:.2f}"
    cells = [
        f"{ours.streams:,} x {ours.rate:g}",
        f"{floor.cpu_us:.1f}",
        f"{ours.cpu_us:.1f}",
        f"{ours.cpu_us / floor.cpu_us:.2f}",
        f"{floor.events_per_s:,.0f}, {ours.events_per_s:,.0f}",
        f"{(ours.rss_bytes - base) / ours.streams / 1000:.0f} KB",
        f"{floor.tbt_p99_ms:.0f}, {ours.tbt_p99_ms:.0f} ms",
        cores,
    ]
    failed = {**floor.errors, **ours.errors}
    return f"| {' | '.join(cells)} |" + (f" errors: {failed}" if failed else "")


def _tbt(window: Window) -> str:
    return f"p50 {window.tbt_p50_ms:.1f}, p99 {window.tbt_p99_ms:.1f}, longest {window.tbt_max_ms:.0f} ms"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine() -> str:
    about = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in about if line.startswith("model name")]
    return f"{os.cpu_count()} cores ({names[0] if names else platform.machine()}), Python {platform.python_version()}"


def numbers(text: str) -> list[int]:
    if not all(part.isdecimal() and 1 <= int(part) <= 1000 for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected numbers of streams from 1 to 1000, like 100,400, not {text!r}")
    return [int(part) for part in text.split(",")]


def parts(text: str) -> list[str]:
    if unknown := set(text.split(",")) - set(PARTS):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(PARTS)}, not {','.join(sorted(unknown))}")
    return text.split(",")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=parts, default=list(PARTS), help=f"some of {','.join(PARTS)} (all)")
    parser.add_argument("--streams", type=numbers, default=[100, 400], help="streams of part load (100,400)")
    parser.add_argument("--rate", type=float, default=50.0, help="events a second in each stream (50)")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a measurement (10)")
    parser.add_argument("--gateways", type=int, default=1, help="gateway processes (1)")
    parser.add_argument("--quick", action="store_true", help="100 streams, 4 s, no pair: to see that it works")
    options = parser.parse_args()
    if options.quick:
        options.streams, options.seconds = [100], 4.0
        options.parts = [part for part in options.parts if part != "pair"]
    benchmark = Benchmark(options)
    benchmark.run()
    print(f"{machine()}, {options.gateways} gateway, windows of {options.seconds:g} s\n")
    print("\n".join(benchmark.lines))


if __name__ == "__main__":
    main()
