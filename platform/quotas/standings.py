"""Where a caller stands against a limit: what is left, when there is more, and whether waiting helps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

UNIT = 60_000  # of a rate's settled tokens, see `inference.protocol.quotas`
SOON_MS = 1000  # while only running requests are in the way

Level = Literal["key", "organisation"]

RATES = ("rpm", "itpm", "otpm")
_WORDS = {
    "rpm": "requests a minute", "itpm": "input tokens a minute", "otpm": "output tokens a minute",
    "max_streams": "streams at once",
    "budget_tokens_day": "tokens a day", "budget_tokens_month": "tokens a month", "budget_tokens": "tokens in all",
}  # fmt: skip
LIMITS = tuple(_WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a request may take at most, and when it came (UTC)."""

    input_tokens: int
    max_tokens: int
    moment: datetime

    def of(self, limit: str) -> int:
        """Return how much of a limit it takes."""
        tokens = self.input_tokens + self.max_tokens
        return {"rpm": 1, "max_streams": 1, "itpm": self.input_tokens, "otpm": self.max_tokens}.get(limit, tokens)

    def ms_until_new(self, budget: str) -> int | None:
        """Return in how long a budget begins anew, None for never."""
        day = self.moment.replace(hour=0, minute=0, second=0, microsecond=0)
        ends = {
            "budget_tokens_day": day + timedelta(days=1),
            "budget_tokens_month": (day.replace(day=1) + timedelta(days=32)).replace(day=1),
        }
        return -((self.moment - ends[budget]) // timedelta(milliseconds=1)) if budget in ends else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One limit as it stood at a moment. `settled` of a rate is in its unit, and flows off all the time.

    `without_room` says that whoever has it had no room for the request, by this limit or by another.
    """

    level: Level
    name: str
    limit: int
    settled: int
    reserved: int
    shadow: bool = False
    without_room: bool = False

    @property
    def is_rate(self) -> bool:
        return self.name in RATES

    @property
    def is_budget(self) -> bool:
        return not self.is_rate and self.name != "max_streams"

    @property
    def remaining(self) -> int:
        """How much a request could take at once."""
        return max(0, -self._over(0))

    def lacks(self, need: Need) -> bool:
        """Say whether there is no room for a request."""
        return self._over(need.of(self.name)) > 0

    def is_hopeless(self, need: Need) -> bool:
        """Say whether trying again will not do: it asks for more than the limit, or the budget has been spent."""
        wanted = need.of(self.name)
        return wanted > self.limit or (self.is_budget and self.settled + wanted > self.limit)

    def wait_ms(self, need: Need) -> int | None:
        """Return after how long a request may be let in at the soonest, None for never."""
        wanted = need.of(self.name)
        if wanted > self.limit:
            return None
        if self.is_rate:
            excess = self.settled + (wanted - self.limit) * UNIT
            return -(-excess // self.limit) if excess > 0 else SOON_MS
        return need.ms_until_new(self.name) if self.is_hopeless(need) else SOON_MS

    def full_ms(self, need: Need) -> int | None:
        """Return in how long nothing will be taken of it if nothing comes and all reserved is used; None for never."""
        if self.is_rate:
            return -(-(self.settled + self.reserved * UNIT) // self.limit)
        return need.ms_until_new(self.name)

    def refusal(self, need: Need) -> str:
        """Say what is in the way of a request."""
        wanted, words = need.of(self.name), _WORDS[self.name]
        whose = f"the {self.level}'s limit is {self.limit} {words}"
        if wanted > self.limit:
            field = "messages" if self.name == "itpm" else "max_tokens"
            return f"{field}: this request may take {wanted}, but {whose}. Ask for less."
        if self.is_hopeless(need):
            return (
                f"This request may take {wanted} tokens, but {whose}, and {max(0, self.limit - self.settled)} are left."
            )
        if self.is_rate and self.settled + (wanted - self.limit) * UNIT > 0:
            return f"{whose[0].upper()}{whose[1:]}. Try again later."
        return f"{whose[0].upper()}{whose[1:]}, and requests that are running have it. Try again shortly."

    def _over(self, wanted: int) -> int:
        """Return by how much a limit would be passed, rounded up."""
        settled = -(-self.settled // UNIT) if self.is_rate else self.settled
        return settled + self.reserved + wanted - self.limit


def tightest(standings: Iterable[Standing]) -> Standing | None:
    """Return the one of which the least is left."""
    return min(standings, key=lambda standing: (standing.remaining, standing.limit), default=None)
