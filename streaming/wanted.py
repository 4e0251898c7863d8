"""What a caller wants, whatever form it was said in."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from inference.protocol.requests import Sampling

Turn = dict[str, str]  # role, content


def random_seed() -> int:
    """Return a seed for a request that named none."""
    return secrets.randbits(63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A message to be generated. `max_tokens` None means as many as fit."""

    model: str
    turns: list[Turn]
    max_tokens: int | None
    stop_sequences: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=lambda: Sampling(seed=random_seed()))
