"""The engine around any causal language model of transformers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

import torch

from inference.engines.base import EngineRequest, EngineStats, FinishReason, StepOutput
from inference.engines.transformers import loading
from inference.engines.transformers.device import is_out_of_memory, resolve_device, resolve_dtype, usable_cores
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.runner import BLOCK_SIZE, ModelRunner, fitting_blocks
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.selftest import check_agrees
from inference.engines.transformers.sequence import Chunk, Sequence
from inference.protocol.settings import Settings

logger = logging.getLogger(__name__)


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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.context_length = context_length
        self._clock = clock
        self._runner = runner
        self._scheduler = scheduler
        self._end_ids = end_ids
        self._sequences: dict[str, Sequence] = {}
        self._ended: dict[str, StepOutput] = {}  # known at submission, told in the next step

    @classmethod
    def load(cls, settings: Settings) -> TransformersEngine:
        """Load the model that the settings name, check that it is served rightly, and warm it up."""
        torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))
        device = resolve_device(settings.device)
        model = loading.load_model(settings.models_path / settings.model, device, resolve_dtype(settings.dtype, device))
        context_length = min(loading.longest_context(model), settings.kv_cache_tokens)
        shape = loading.survey(model, context_length)
        pool = BlockPool(fitting_blocks(settings.kv_cache_tokens, shape, model), BLOCK_SIZE)
        runner = ModelRunner(model, shape, pool.num_blocks, pad_decodes=device.type != "cpu")
        check_agrees(runner)
        return cls(
            runner,
            Scheduler(pool, max_batch=settings.max_batch, max_batch_tokens=settings.max_batch_tokens),
            context_length=min(context_length, pool.num_tokens),
            end_ids=loading.end_of_text_ids(model),
        )

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
            self._scheduler.add(sequence)

    def cancel(self, request_id: str) -> None:
        """Forget a request. Its blocks are free at once: no step runs now that could still write to them."""
        self._ended.pop(request_id, None)
        if sequence := self._sequences.pop(request_id, None):
            self._scheduler.remove(sequence)

    def step(self) -> list[StepOutput]:
        """Schedule, compute, collect what each sequence got."""
        ended = list(self._ended.values())
        self._ended.clear()
        chunks = self._scheduler.schedule()
        return ended + self._compute(chunks) if chunks else ended

    def stats(self) -> EngineStats:
        pool = self._scheduler.pool
        return EngineStats(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting) + len(self._ended),
            kv_tokens_used=pool.num_used * pool.block_size,
            kv_tokens_total=pool.num_tokens,
        )

    def _problem(self, request: EngineRequest) -> str:
        wanted = len(request.prompt_ids) + request.max_tokens
        if not request.prompt_ids:
            return "The prompt is empty."
        if wanted > self.context_length:
            return f"Prompt and max_tokens come to {wanted} tokens; the model takes {self.context_length}."
        ids = (*request.prompt_ids, *request.generated_ids)
        if min(ids) < 0 or max(ids) >= self._runner.vocab_size:
            return "A token id is outside the model's vocabulary."  # on a GPU it would take all others down with it
        return request.sampling.problem

    def _compute(self, chunks: list[Chunk]) -> list[StepOutput]:
        started = self._clock()
        try:
            drawn = self._runner.run(chunks)
        except Exception as error:
            return self._fail(chunks, error)
        if drawn:  # only then has a GPU been waited for
            self._scheduler.pace.note([chunk.num_tokens for chunk in chunks], self._clock() - started)
        for chunk in chunks:
            chunk.sequence.num_computed = chunk.end
        outputs = [self._collect(sequence, token) for sequence, token in drawn]
        if not self._sequences:
            self._scheduler.pool.check_integrity()
        return outputs

    def _collect(self, sequence: Sequence, token: int | None) -> StepOutput:
        if token is None:
            return self._end(sequence, finish="error", error="No token could be drawn from the model's output.")
        if token in self._end_ids:
            return self._end(sequence, finish="end_of_text")
        sequence.token_ids.append(token)
        if sequence.is_full:
            return self._end(sequence, token, finish="max_tokens")
        return StepOutput(sequence.id, (token,))

    def _fail(self, chunks: list[Chunk], error: Exception) -> list[StepOutput]:
        """End what was in the step, and nothing else."""
        if isinstance(error, torch.AcceleratorError):
            raise error  # the device is lost to this process; another worker goes on
        logger.error("A step failed.", exc_info=error)
        if is_out_of_memory(error):
            return [self._end(chunk.sequence, finish="oom", error="Out of memory.") for chunk in chunks]
        return [self._end(chunk.sequence, finish="error", error="The model failed.") for chunk in chunks]

    def _end(self, sequence: Sequence, *token_ids: int, finish: FinishReason, error: str = "") -> StepOutput:
        del self._sequences[sequence.id]
        self._scheduler.remove(sequence)
        return StepOutput(sequence.id, token_ids, finish, error)
