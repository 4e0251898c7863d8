"""A request on its way from the gateway to a worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from inference.protocol.outcomes import Priority
from inference.protocol.tools import ToolUse

# The version is raised when an older worker would misread a request; a field it may leave out does not need that.
VERSION = 2
HIGHEST_TEMPERATURE = 2.0


class PayloadError(ValueError):
    """Raised when a request cannot be read; the message holds nothing of its content."""


class NewerVersion(Exception):
    """Raised when a request is for newer workers than this one."""


def known_fields(kind: type[Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a dataclass knows of a body that may be of a newer version."""
    return {f.name: body[f.name] for f in fields(kind) if f.name in body}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is drawn. Temperature 0 takes the likeliest; `top_k` 0 means all."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    @property
    def problem(self) -> str:
        """Say what is out of range, "" when nothing is."""
        if not 0 <= self.temperature <= HIGHEST_TEMPERATURE:  # nor is NaN
            return f"temperature: expected 0 to {HIGHEST_TEMPERATURE:g}."
        if not 0 <= self.top_p <= 1:
            return "top_p: expected 0 to 1."
        return "" if self.top_k >= 0 else "top_k: expected 0 or more."


@dataclass(frozen=True, slots=True)
class Grammar:
    """What an answer is held to, in llguidance's language.

    Where it is not `required` it only helps, and what cannot hold to it may do without.
    """

    source: str
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """All that a worker needs of a message: it asks nobody else about the tenant.

    `prompt_ids` is the tokenised prompt, `texts` the caller's own words in it (what prompt checks read). `tools` is how
    calls in the answer are read. `patience_s` is for how long it may wait in the queue, where that is longer than
    usual; for as long its answer waits for whoever asked. `detached` says that nobody holds a connection for it: what
    it came to is judged where it is settled.
    """

    id: str
    model: str
    organization: str
    key: str
    patience_s: int | None = None  # stands before what is long: the reaper looks for it in the encoded request
    prompt_ids: tuple[int, ...]
    texts: tuple[str, ...]
    max_tokens: int
    stop_sequences: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    priority: Priority = "standard"
    policy: str = "off"
    tools: ToolUse | None = None
    grammar: Grammar | None = None
    created_at: float  # seconds since the epoch, for the record
    detached: bool = False
    traceparent: str | None = None  # where its worker's spans belong, in W3C's form; None where nobody follows it

    @property
    def version(self) -> int:
        """The oldest version whose workers serve this request rightly."""
        return 2 if self.tools or self.grammar else 1

    def encode(self) -> str:
        return json.dumps({"version": self.version} | asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, blob: bytes | str) -> GenerationRequest:
        """Read what `encode` wrote, but for fields that we do not know; raise `NewerVersion` or `PayloadError`."""
        try:
            body: dict[str, Any] = json.loads(blob)
            if body["version"] > VERSION:
                raise NewerVersion(f"version {body['version']}, ours is {VERSION}")
            body = known_fields(cls, body)
            body["sampling"] = Sampling(**known_fields(Sampling, body["sampling"]))
            for name in ("prompt_ids", "texts", "stop_sequences"):
                body[name] = tuple(body[name])
            if body.get("tools"):
                body["tools"] = ToolUse.decode(body["tools"])
            if body.get("grammar"):
                body["grammar"] = Grammar(**known_fields(Grammar, body["grammar"]))
            return cls(**body)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PayloadError(type(error).__name__) from None  # a JSON error carries the text
