"""What responses say of limits: under Anthropic's names, or under OpenAI's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quotas.standings import Need, Standing, tightest

NEVER_S = 24 * 3600  # where waiting will not do: somebody has to change the limit, or ask for less

_KINDS = ("requests", "input-tokens", "output-tokens", "tokens")
_PARTS = ("limit", "remaining", "reset")
NAMES = (
    *(f"anthropic-ratelimit-{kind}-{part}" for kind in _KINDS for part in _PARTS),
    *(f"x-ratelimit-{part}-{kind}" for kind in ("requests", "tokens") for part in _PARTS),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """One limit as headers tell of it; `full_ms` is in how long it is whole again, None for never."""

    limit: int
    remaining: int
    full_ms: int | None


Form = Callable[[Sequence[Standing], Need, datetime], dict[str, str]]


def anthropic_headers(standings: Sequence[Standing], need: Need, now: datetime) -> dict[str, str]:
    """Return `anthropic-ratelimit-*`, of each kind the limit of which the least is left."""
    found: dict[str, str] = {}
    for kind, shown in _shown(standings, need).items():
        found[f"anthropic-ratelimit-{kind}-limit"] = str(shown.limit)
        found[f"anthropic-ratelimit-{kind}-remaining"] = str(shown.remaining)
        if shown.full_ms is not None:
            reset = now + timedelta(milliseconds=shown.full_ms, seconds=1, microseconds=-1)  # rounded up
            found[f"anthropic-ratelimit-{kind}-reset"] = reset.strftime("%Y-%m-%dT%H:%M:%SZ")
    return found


def openai_headers(standings: Sequence[Standing], need: Need, now: datetime) -> dict[str, str]:
    """Return `x-ratelimit-*`; where no limit counts all tokens, `tokens` is of those that one counts."""
    shown = _shown(standings, need)
    tokens = [shown[kind] for kind in ("tokens", "input-tokens", "output-tokens") if kind in shown]
    kinds = {"requests": shown.get("requests"), "tokens": tokens[0] if tokens else None}
    found: dict[str, str] = {}
    for kind, one in kinds.items():
        if one is not None:
            found[f"x-ratelimit-limit-{kind}"] = str(one.limit)
            found[f"x-ratelimit-remaining-{kind}"] = str(one.remaining)
            if one.full_ms is not None:
                found[f"x-ratelimit-reset-{kind}"] = duration(one.full_ms)
    return found


def retry_headers(lacking: Sequence[Standing], need: Need) -> dict[str, str]:
    """Return when to try again after a refusal, and whether to."""
    waits = [standing.wait_ms(need) for standing in lacking]
    seconds = max(NEVER_S if wait is None else max(1, -(-wait // 1000)) for wait in waits)
    hopeless = any(standing.is_hopeless(need) for standing in lacking)
    return {"retry-after": str(seconds)} | ({"x-should-retry": "false"} if hopeless else {})


def duration(milliseconds: int) -> str:
    """Write a time as OpenAI does: 12ms, 6.5s, 6m0s, 1h0m30s."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest / 1000:g}s"


def _shown(standings: Sequence[Standing], need: Need) -> dict[str, Shown]:
    shown: dict[str, Shown] = {}
    for kind, name in (("requests", "rpm"), ("input-tokens", "itpm"), ("output-tokens", "otpm")):
        if found := tightest(s for s in standings if s.name == name):
            shown[kind] = Shown(found.limit, found.remaining, found.full_ms(need))
    if budget := tightest(s for s in standings if s.is_budget):
        shown["tokens"] = Shown(budget.limit, budget.remaining, budget.full_ms(need))
    elif "input-tokens" in shown and "output-tokens" in shown:
        shown["tokens"] = _sum(shown["input-tokens"], shown["output-tokens"])
    return shown


def _sum(one: Shown, other: Shown) -> Shown:
    return Shown(one.limit + other.limit, one.remaining + other.remaining, max(one.full_ms or 0, other.full_ms or 0))
