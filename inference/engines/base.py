"""What the worker asks of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from inference.protocol.outcomes import Priority
from inference.protocol.requests import Grammar, Sampling

FinishReason = Literal["end_of_text", "max_tokens", "error", "oom"]


class EngineError(ValueError):
    """Raised at start when an engine cannot serve what the settings ask for; the message says what is in the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """A sequence to continue: `prompt_ids`, then `generated_ids` that an earlier attempt has already released.

    `max_tokens` counts the generated ones too. `salt` separates tenants in a shared prefix cache. The generated
    text keeps to the `grammar`. `waited_s` is the time since it came to the platform. `text` is the caller's last
    words, which only the simulated engine reads.
    """

    id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    generated_ids: tuple[int, ...] = ()
    salt: str = ""
    grammar: Grammar | None = None
    priority: Priority = "standard"
    waited_s: float = 0.0
    text: str = ""


def problem_of(request: EngineRequest, *, context_length: int, vocab_size: int) -> str:
    """Say why no engine of this size can take a request, "" when one can."""
    wanted = len(request.prompt_ids) + request.max_tokens
    if not request.prompt_ids:
        return "The prompt is empty."
    if wanted > context_length:
        return f"Prompt and max_tokens come to {wanted} tokens; the model takes {context_length}."
    ids = (*request.prompt_ids, *request.generated_ids)
    if min(ids) < 0 or max(ids) >= vocab_size:
        return "A token id is outside the model's vocabulary."  # on a GPU it would take all others down with it
    return request.sampling.problem


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one step gave a request: new token ids (the end-of-text token is not among them), and why it ended.

    `cached_tokens` of its prompt were not computed for it, but found in the prefix cache. It was `waiting_s` in the
    engine before it was let into the batch, where the engine tells.
    """

    id: str
    token_ids: tuple[int, ...] = ()
    finish: FinishReason | None = None
    error: str = ""
    cached_tokens: int = 0
    waiting_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """The engine's load now: sequences, tokens of the KV cache, and what else the device has to do with.

    `kv_tokens_wanted` are those that the waiting sequences need to run. A total of 0 sets no limit. `prefills`
    are those whose prompts are not computed yet, where the engine tells: the request, the tokens computed, of how many.
    """

    running: int = 0
    waiting: int = 0
    kv_tokens_used: int = 0
    kv_tokens_wanted: int = 0
    kv_tokens_total: int = 0
    prefills: tuple[tuple[str, int, int], ...] = ()
    device: str = field(default="", compare=False)
    memory_used: int = field(default=0, compare=False)  # bytes, of the device
    memory_total: int = field(default=0, compare=False)


class Engine(Protocol):
    """A model that decodes many sequences together, one step at a time, from one thread."""

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together that a request may have."""

    @property
    def max_batch(self) -> int:
        """Requests that are worth holding at once."""

    def submit(self, request: EngineRequest) -> None:
        """Take a request; it joins the batch in a later step. A request that does not fit ends with `error`."""

    def cancel(self, request_id: str) -> None:
        """Forget a request. The next step neither computes it nor speaks of it; unknown ids are ignored."""

    def step(self) -> list[StepOutput]:
        """Compute one step for what is running. Returns at once when nothing is."""

    def stats(self) -> EngineStats:
        """Return the load now."""
