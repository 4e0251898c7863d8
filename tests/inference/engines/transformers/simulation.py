"""Seconds of a busy engine in moments: the real scheduler on a machine that only has costs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from inference.engines.base import EngineRequest
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Chunk, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a step costs in seconds: by itself, for a token of prefill, for one that decodes, for the context read."""

    step: float
    prefill: float
    decode: float
    context: float  # a thousand tokens, by one token

    def seconds(self, chunks: list[Chunk]) -> float:
        tokens = sum(self.decode if c.num_tokens == 1 else self.prefill * c.num_tokens for c in chunks)
        return self.step + tokens + self.context * sum(c.num_tokens * c.end for c in chunks) / 1000


TWO_CORES = Machine(step=0.012, prefill=0.0012, decode=0.0018, context=0.0004)
OLD_CORES = Machine(step=0.085, prefill=0.004, decode=0.0075, context=0.001)
GPU = Machine(step=0.012, prefill=0.00001, decode=0.00005, context=0.000001)


@dataclass(slots=True)
class Stream:
    """A request that comes at some time, and when it got its tokens."""

    at: float
    request: EngineRequest
    heard: list[float] = field(default_factory=list)
    num_computed: int = 0

    @property
    def ttft(self) -> float:
        return self.heard[0] - self.at

    def gaps(self, start: float = 0.0, end: float = float("inf")) -> list[float]:
        pairs = zip(self.heard, self.heard[1:], strict=False)
        return [after - before for before, after in pairs if start < after <= end]


def streams(number: int, *, at: float = 0.0, prompt: int = 38, answer: int = 64, shared: int = 0) -> list[Stream]:
    """Return streams that come together; their prompts begin with so many tokens that are the same."""
    found: list[Stream] = []
    for _ in range(number):
        name = f"{at}-{prompt}-{len(found)}"
        own = random.Random(name).choices(range(1000), k=prompt - shared)
        found.append(Stream(at, EngineRequest(id=name, prompt_ids=(*range(shared), *own), max_tokens=answer)))
    return found


def in_class(found: list[Stream], **changes: object) -> list[Stream]:
    """Return streams with their requests changed."""
    return [Stream(stream.at, replace(stream.request, **changes)) for stream in found]  # type: ignore[arg-type]


class Simulation:
    """A scheduler, a machine and a clock of their own."""

    def __init__(
        self, machine: Machine, *, num_blocks: int = 2048, noise: float = 0.05, prefix_cache: bool = True
    ) -> None:
        self.now = 0.0
        self.scheduler = Scheduler(
            BlockPool(num_blocks, 16),
            max_batch=32,
            max_batch_tokens=512,
            prefix_cache=prefix_cache,
            clock=lambda: self.now,
        )
        self._machine, self._noise, self._chance = machine, noise, random.Random(1)
        self._streams: dict[str, Stream] = {}
        self._serve(streams(1, prompt=100, answer=50))  # from which it learns what steps cost

    def run(self, *groups: list[Stream]) -> None:
        """Serve streams to their ends; their times count from now."""
        start = self.now
        for group in groups:
            for stream in group:
                stream.at += start
        self._serve([stream for group in groups for stream in group])

    def _serve(self, found: list[Stream]) -> None:
        coming = sorted(found, key=lambda stream: stream.at)
        while coming or self.scheduler.running or self.scheduler.waiting:
            while coming and coming[0].at <= self.now:
                stream = coming.pop(0)
                self._streams[stream.request.id] = stream
                self.scheduler.add(Sequence.of(stream.request))
            chunks = self.scheduler.schedule()
            if not chunks:
                self.now = max(self.now, coming[0].at)
                continue
            self._step(chunks)

    def _step(self, chunks: list[Chunk]) -> None:
        seconds = self._machine.seconds(chunks) * max(0.5, self._chance.gauss(1, self._noise))
        self.now += seconds
        self.scheduler.pace.note([chunk.num_tokens for chunk in chunks], seconds)
        for chunk in chunks:
            sequence, is_last = chunk.sequence, chunk.is_last
            self._streams[sequence.id].num_computed += chunk.num_tokens
            self.scheduler.computed(chunk)
            if is_last:
                self._streams[sequence.id].heard.append(self.now)
                sequence.token_ids.append(self._chance.randrange(1000))
                if sequence.is_full:
                    self.scheduler.remove(sequence)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
