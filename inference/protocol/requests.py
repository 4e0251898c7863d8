"""A request on its way from the gateway to a worker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from inference.protocol.outcomes import Priority

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is drawn. Temperature 0 takes the likeliest; `top_k` 0 means all."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """All that a worker needs of a message: it asks nobody else about the tenant.

    `prompt_ids` is the tokenised prompt, `texts` the caller's own words in it (what prompt checks read).
    """

    id: str
    model: str
    organization: str
    key: str
    prompt_ids: tuple[int, ...]
    texts: tuple[str, ...]
    max_tokens: int
    stop_sequences: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    priority: Priority = "standard"
    policy: str = "off"
    created_at: float  # seconds since the epoch, for the record
    traceparent: str = ""

    def encode(self) -> str:
        return json.dumps({"version": VERSION} | asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, blob: bytes | str) -> GenerationRequest:
        """Read what `encode` wrote; fields of a newer version that we do not know are left out."""
        body: dict[str, Any] = json.loads(blob)
        body = {f.name: body[f.name] for f in fields(cls) if f.name in body}
        body["sampling"] = Sampling(**body["sampling"])
        for name in ("prompt_ids", "texts", "stop_sequences"):
            body[name] = tuple(body[name])
        return cls(**body)
