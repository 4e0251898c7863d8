"""The engine around any causal language model of transformers."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol

import torch

from inference.engines.base import EngineRequest, EngineStats, FinishReason, StepOutput, problem_of
from inference.engines.transformers.bringing_up import bring_up
from inference.engines.transformers.device import give_memory_back, is_out_of_memory, resolve_device
from inference.engines.transformers.guidance import GrammarError, Guidance, Guide
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.memory import MemoryGauge
from inference.engines.transformers.portions import Portions, halved
from inference.engines.transformers.runner import BLOCK_SIZE
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Chunk, Sequence
from inference.protocol.settings import Settings

logger = logging.getLogger(__name__)

COMPILING_WAIT_S = 0.005
WARM_UP = "warm-up"  # shares nothing with anybody: the ids of organisations look different
WARM_STEPS = 6
WARM_GROWTH = 8  # the costs of one prefill say enough to dare one so many times as large
LEASE_SHARE = 0.25  # the most that a step may take: leases are renewed between steps


class Runner(Protocol):
    """What computes a step."""

    @property
    def vocab_size(self) -> int:
        """Return how many token ids there are."""

    def run(self, chunks: list[Chunk]) -> list[tuple[Sequence, int | None]]:
        """Compute the chunks; return the next token of those that are complete, None where the model gave none."""


class TransformersEngine:
    """Decodes many sequences together: `submit` and `cancel` between steps, all from one thread."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        *,
        context_length: int,
        end_ids: frozenset[int],
        guidance: Guidance | None = None,
        memory: MemoryGauge | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.context_length = context_length
        self._clock = clock
        self._runner = runner
        self._scheduler = scheduler
        self._end_ids = end_ids
        self._guidance = guidance
        self._memory = memory
        self._portions = Portions()
        self._sequences: dict[str, Sequence] = {}
        self._compiling: dict[str, Future[Guide]] = {}  # of the sequences whose grammar is on its way
        self._ended: dict[str, StepOutput] = {}  # known before a step, told in the next

    @classmethod
    def load(cls, settings: Settings) -> TransformersEngine:
        """Load the model that the settings name, check that it is served rightly, and warm it up."""
        served = bring_up(settings)
        pool = BlockPool(served.runner.num_blocks, BLOCK_SIZE)
        engine = cls(
            served.runner,
            Scheduler(
                pool,
                max_batch=settings.max_batch,
                max_batch_tokens=settings.max_batch_tokens,
                prefix_cache=settings.prefix_cache,
                longest_step_s=settings.lease_s * LEASE_SHARE,
            ),
            context_length=min(served.context_length, pool.num_tokens),
            end_ids=served.end_ids,
            guidance=Guidance(
                settings.models_path / settings.model / "tokenizer.json", served.runner.vocab_size, served.end_ids
            ),
            memory=MemoryGauge(resolve_device(settings.device)),
        )
        engine.warm_up()
        return engine

    def warm_up(self) -> None:
        """Do a few steps, so that the device is ready and the pace knows what they cost before anybody waits.

        They begin small and end where the pace does: a large step of a slow model would take minutes.
        """
        room = min(self._scheduler.max_batch_tokens, self.context_length - WARM_STEPS)
        size = min(BLOCK_SIZE, room)
        self._warm_up_with(size, WARM_STEPS)
        while 2 * size <= (most := min(room, self._scheduler.pace.allowance(0))):
            size = min(WARM_GROWTH * size, most)
            self._warm_up_with(size, 1)

    def _warm_up_with(self, size: int, max_tokens: int) -> None:
        prompt = tuple(index * 7919 % self._runner.vocab_size for index in range(size))
        # None finds in the prefix cache what another computed.
        self.submit(EngineRequest(id=WARM_UP, prompt_ids=prompt, max_tokens=max_tokens, salt=f"{WARM_UP} {size}"))
        while self._sequences:
            self.step()

    @property
    def max_batch(self) -> int:
        return self._scheduler.max_batch

    def submit(self, request: EngineRequest) -> None:
        """Take a request; it joins the batch in a later step. A request that does not fit ends with `error`."""
        assert request.id not in self._sequences, "the request is here already"
        sequence = Sequence.of(request)
        if problem := self._problem(request):
            self._ended[request.id] = StepOutput(request.id, finish="error", error=problem)
        elif sequence.is_full:
            self._ended[request.id] = StepOutput(request.id, finish="max_tokens")
        else:
            self._sequences[request.id] = sequence
            if request.grammar and self._guidance:
                self._compiling[request.id] = self._guidance.compile(request)
            else:
                self._scheduler.add(sequence)

    def cancel(self, request_id: str) -> None:
        """Forget a request. Its blocks are free at once: no step runs now that could still write to them."""
        self._ended.pop(request_id, None)
        sequence = self._sequences.pop(request_id, None)
        if compiling := self._compiling.pop(request_id, None):
            compiling.cancel()
        elif sequence:
            self._scheduler.remove(sequence)

    def step(self) -> list[StepOutput]:
        """Schedule, compute, collect what each sequence got."""
        self._begin_guided()
        ended = list(self._ended.values())
        self._ended.clear()
        chunks = self._scheduler.schedule()
        return ended + self._compute(chunks) if chunks else ended

    def stats(self) -> EngineStats:
        pool = self._scheduler.pool
        waiting = [*self._scheduler.waiting, *(self._sequences[name] for name in self._compiling)]
        memory = self._memory.read() if self._memory else None
        return EngineStats(
            running=len(self._scheduler.running),
            waiting=len(waiting) + len(self._ended),
            kv_tokens_used=pool.num_used * pool.block_size,
            kv_tokens_wanted=sum(pool.blocks_for(sequence.num_tokens) for sequence in waiting) * pool.block_size,
            kv_tokens_total=pool.num_tokens,
            prefills=tuple((s.id, s.num_computed, s.num_tokens) for s in self._scheduler.running if s.num_pending > 1),
            device=memory.device if memory else "",
            memory_used=memory.used if memory else 0,
            memory_total=memory.total if memory else 0,
        )

    def _problem(self, request: EngineRequest) -> str:
        if request.grammar and request.grammar.required and not self._guidance:
            return "This engine has no tokenizer to follow a grammar with."
        return problem_of(request, context_length=self.context_length, vocab_size=self._runner.vocab_size)

    def _begin_guided(self) -> None:
        """Let those run whose grammar is compiled, and end those whose grammar cannot be."""
        if self._compiling and len(self._compiling) == len(self._sequences):
            wait(self._compiling.values(), COMPILING_WAIT_S, FIRST_COMPLETED)  # there is nothing else to do
        for request_id in [request_id for request_id, compiling in self._compiling.items() if compiling.done()]:
            compiled, sequence = self._compiling.pop(request_id), self._sequences[request_id]
            try:
                sequence.guide = compiled.result()
            except GrammarError as error:
                grammar = sequence.request.grammar
                if grammar and grammar.required:
                    self._end_before(sequence, finish="error", error=str(error))
                    continue
                logger.warning("A sequence goes on without its grammar: %s", error)
            except Exception as error:  # of the library, which no grammar should bring to this
                logger.error("A grammar could not be compiled.", exc_info=error)
                self._end_before(sequence, finish="error", error="The grammar cannot be compiled.")
                continue
            if sequence.guide and sequence.guide.is_complete:  # all was released, but not that it was all
                self._end_before(sequence, finish="end_of_text")
            else:
                self._scheduler.add(sequence)

    def _end_before(self, sequence: Sequence, *, finish: FinishReason, error: str = "") -> None:
        """End a sequence that is not scheduled yet."""
        del self._sequences[sequence.id]
        self._ended[sequence.id] = StepOutput(sequence.id, finish=finish, error=error)

    def _compute(self, chunks: list[Chunk]) -> list[StepOutput]:
        """Compute a step, in parts where memory is short. What fails is cut until only those at fault are left."""
        outputs: list[StepOutput] = []
        parts = deque(self._portions.cut(chunks))
        while parts:
            part = [chunk for chunk in parts.popleft() if chunk.sequence.id in self._sequences]
            if not part:
                continue
            drawn, fault = self._run(part)
            if not fault:
                outputs += [self._collect(sequence, token) for sequence, token in drawn]
            elif halves := halved(part):
                parts.extendleft(reversed(halves))
            else:
                outputs.append(self._fail(part[0].sequence, fault))
        if not self._sequences:
            self._scheduler.pool.check_integrity()
        return outputs

    def _run(self, part: list[Chunk]) -> tuple[list[tuple[Sequence, int | None]], FinishReason | None]:
        """Compute some chunks; return what was drawn, or what the matter was."""
        started = self._clock()
        try:
            drawn = self._runner.run(part)
        except Exception as error:
            fault = self._fault_of(error, part)
        else:
            if drawn:  # only then has a GPU been waited for
                self._scheduler.pace.note([chunk.num_tokens for chunk in part], self._clock() - started)
            for chunk in part:
                self._scheduler.computed(chunk)
            self._portions.fitted()
            return drawn, None
        # Not before the error is gone: its frames hold the tensors of the step.
        if fault == "oom":
            self._portions.did_not_fit(part)
            give_memory_back()
        return [], fault

    def _fault_of(self, error: Exception, part: list[Chunk]) -> FinishReason:
        if is_out_of_memory(error):
            logger.warning("There was no memory for %d tokens.", sum(chunk.num_tokens for chunk in part))
            return "oom"
        if isinstance(error, torch.AcceleratorError):
            raise error  # the device is lost to this process; another worker goes on
        logger.error("A step with %d sequences failed.", len(part), exc_info=error)
        return "error"

    def _collect(self, sequence: Sequence, token: int | None) -> StepOutput:
        if token is None:
            problem = sequence.guide.problem if sequence.guide else ""
            problem = problem or "No token could be drawn from the model's output."
            return self._end(sequence, finish="error", error=problem)
        if token in self._end_ids:
            return self._end(sequence, finish="end_of_text")
        sequence.token_ids.append(token)
        if sequence.guide:
            sequence.guide.accept(token)
            if sequence.guide.is_complete:
                return self._end(sequence, token, finish="end_of_text")
        if sequence.is_full:
            return self._end(sequence, token, finish="max_tokens")
        cached_tokens = _cached_of(sequence)
        return StepOutput(sequence.id, (token,), cached_tokens=cached_tokens, waiting_s=sequence.waiting_s)

    def _fail(self, sequence: Sequence, fault: FinishReason) -> StepOutput:
        problem = "The device has no memory for this request." if fault == "oom" else "The model failed."
        return self._end(sequence, finish=fault, error=problem)

    def _end(self, sequence: Sequence, *token_ids: int, finish: FinishReason, error: str = "") -> StepOutput:
        del self._sequences[sequence.id]
        self._scheduler.remove(sequence)
        return StepOutput(sequence.id, token_ids, finish, error, _cached_of(sequence))


def _cached_of(sequence: Sequence) -> int:
    return min(sequence.num_cached, len(sequence.request.prompt_ids))
