"""The messages that a worker runs, and its engine's part in each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from inference.engines.base import Engine, EngineRequest, StepOutput
from inference.faults import fault_of
from inference.generation import Generation
from inference.protocol.outcomes import CancelReason, Outcome
from inference.safety.judge import judge

logger = logging.getLogger(__name__)


class Running(dict[str, Generation]):
    """Messages by their ids. Whatever is wrong with one is no reason to end the others."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def take(self, outputs: Sequence[StepOutput]) -> None:
        """Let messages have what a step gave them, and write what is judged to be safe."""
        for output in outputs:
            self._try(self[output.id], partial(Generation.push, output=output))
        self.go_on([self[output.id] for output in outputs])
        for output in outputs:
            if output.finish is None and self[output.id].outcome is not None:
                self._engine.cancel(output.id)  # a stop string or a check ended it; the engine does not know

    def go_on(self, generations: Sequence[Generation]) -> None:
        """Have judged together what messages ask for, then let each proceed."""
        judge(ask for generation in generations for ask in generation.asks())
        for generation in generations:
            self._try(generation, Generation.proceed)

    def begin(self, generations: Sequence[Generation]) -> None:
        """Have their prompts judged, then let the engine have those that may run."""
        self.go_on(generations)
        for generation in generations:
            if generation.outcome is None:
                self._try(generation, lambda begun: self._engine.submit(_engine_request(begun)))

    def cancel(self, generation: Generation, reason: CancelReason) -> None:
        """End a message as its client or an operator asked."""
        self._engine.cancel(generation.id)
        generation.cancel(reason)

    def end(self, generation: Generation, outcome: Outcome, *, kind: str, message: str) -> None:
        """End a message with an error."""
        self._engine.cancel(generation.id)
        generation.fail(outcome, kind=kind, message=message)

    def fail(self, generation: Generation, fault: str) -> None:
        """End a message for a fault of its own."""
        logger.error("%s: failed: %s", generation.id, fault)
        self._engine.cancel(generation.id)
        if generation.outcome is None:
            generation.fail("error", kind="api_error", message="The worker failed on this request.")

    def drop(self, generation: Generation) -> None:
        """Forget a message that another attempt has taken over."""
        if self.has(generation):
            del self[generation.id]
            self._engine.cancel(generation.id)

    def has(self, generation: Generation) -> bool:
        """Say whether this attempt, and no other at its message, is among them."""
        return self.get(generation.id) is generation

    def _try(self, generation: Generation, act: Callable[[Generation], None]) -> None:
        try:
            act(generation)
        except Exception as error:  # it may be anything: a grammar, a check, an engine that refuses
            self.fail(generation, fault_of(error))


def _engine_request(generation: Generation) -> EngineRequest:
    request = generation.request
    return EngineRequest(
        id=request.id,
        prompt_ids=request.prompt_ids,
        max_tokens=request.max_tokens,
        sampling=request.sampling,
        generated_ids=generation.continued_from,
        salt=request.organization,
        grammar=request.grammar,
        priority=request.priority,
        waited_s=generation.elapsed_s,
        text=request.texts[-1] if request.texts else "",
    )
