"""The closed sets and bounds of accounts: what a key can be given."""

from __future__ import annotations

from typing import Literal, get_args

from inference.protocol.outcomes import PRIORITY_HEAD_START_S, Priority

NAME_LIMIT = 100  # characters
MODEL_NAME_LIMIT = 200  # characters
MODELS_LIMIT = 100
LARGEST_LIMIT = 10**12  # far below 2**53, up to which Redis counts exactly

Scope = Literal["inference", "usage", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
State = Literal["active", "suspended", "expired", "revoked"]
PRIORITIES: tuple[Priority, ...] = tuple(
    sorted(PRIORITY_HEAD_START_S, key=PRIORITY_HEAD_START_S.__getitem__)
)  # batch first

DEFAULT_POLICY = "standard"  # of those in `safety.models`
DEFAULT_PRIORITY: Priority = "standard"
# The fields of `accounts.models.Limits` that count something.
LIMITS = ("rpm", "itpm", "otpm", "max_streams", "budget_tokens_day", "budget_tokens_month", "budget_tokens")
