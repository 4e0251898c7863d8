"""Quotas as a few lines of Python: what the scripts are held against."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from accounts.callers import Quota
from inference.protocol.quotas import Period

RATES = ("rpm", "itpm", "otpm")


@dataclass
class Reservation:
    """What a message may still use, and of whose limits."""

    input: int
    output: int
    period: Period
    subjects: set[str]
    until_ms: int


@dataclass
class Model:
    """The books of one organisation; `now_ms` is the time."""

    now_ms: int
    used: dict[tuple[str, str], tuple[Fraction, int, int]] = field(default_factory=dict)  # tokens, when, limit
    spent: Counter[tuple[str, str]] = field(default_factory=Counter)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    accounts: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def admit(
        self, message_id: str, subjects: dict[str, Quota], input: int, output: int, period: Period, lease_ms: int
    ) -> bool:
        """Admit or refuse."""
        self.reservations = {i: r for i, r in self.reservations.items() if r.until_ms > self.now_ms}
        needs = self.needs(input, output)
        fitting = {
            name
            for name, quota in subjects.items()
            if all(
                limit is None or sum(self.standing(name, limit_name, limit, period)) + needs[limit_name] <= limit
                for limit_name, limit in limits_of(quota).items()
            )
        }
        if message_id in self.reservations:
            return True
        if any(name not in fitting and not quota.shadow for name, quota in subjects.items()):
            return False
        for name in fitting:
            for rate in RATES:
                if (limit := getattr(subjects[name], rate)) is not None:
                    self.use(name, rate, needs[rate] if rate != "otpm" else 0, limit)
        self.reservations[message_id] = Reservation(input, output, period, fitting, self.now_ms + lease_ms)
        return True

    def account(self, message_id: str, subjects: list[str], input: int, output: int, pen: int, period: Period) -> bool:
        """Count what a message used."""
        held = self.reservations.pop(message_id, None)
        known_pen, known_input, known_output = self.accounts.get(message_id, (0, 0, 0))
        if known_pen > pen:
            return False
        self.accounts[message_id] = (pen, input, output)
        for name in subjects:
            for what in periods(period):
                self.spent[name, what] += input + output - known_input - known_output
            if (name, "otpm") in self.used and (held is None or name in held.subjects):
                self.use(name, "otpm", output - known_output, self.used[name, "otpm"][2])
        return True

    def give_back(self, message_id: str) -> None:
        """Undo an admission."""
        held = self.reservations.pop(message_id, None)
        for name in held.subjects if held else ():
            for rate, taken in (("rpm", 1), ("itpm", held.input if held else 0)):
                if (name, rate) in self.used:
                    self.use(name, rate, -taken, self.used[name, rate][2])

    def renew(self, message_id: str, lease_ms: int) -> None:
        """Keep a reservation."""
        if message_id in self.reservations:
            self.reservations[message_id].until_ms = self.now_ms + lease_ms

    def standing(self, name: str, limit_name: str, limit: int, period: Period) -> tuple[Fraction, int]:
        """Return what is settled of a limit, and what is reserved."""
        held = [r for r in self.reservations.values() if name in r.subjects]
        if limit_name in RATES:
            reserved = sum(r.output for r in held) if limit_name == "otpm" else 0
            return self.used_of(name, limit_name, limit), reserved
        if limit_name == "max_streams":
            return Fraction(0), len(held)
        what = dict(zip(("budget_tokens_day", "budget_tokens_month", "budget_tokens"), periods(period), strict=True))
        reserved = sum(r.input + r.output for r in held if what[limit_name] in periods(r.period))
        return Fraction(self.spent[name, what[limit_name]]), reserved

    def used_of(self, name: str, rate: str, limit: int) -> Fraction:
        """Return what is in a bucket: it flows off by `limit` a minute."""
        tokens, at_ms, _ = self.used.get((name, rate), (Fraction(0), self.now_ms, 0))
        return max(Fraction(0), tokens - Fraction(limit * (self.now_ms - at_ms), 60_000))

    def use(self, name: str, rate: str, tokens: int, limit: int) -> None:
        level = self.used_of(name, rate, limit) + tokens
        self.used[name, rate] = (max(Fraction(0), level), self.now_ms, limit)

    @staticmethod
    def needs(input: int, output: int) -> dict[str, int]:
        both = input + output
        budgets = dict.fromkeys(("budget_tokens_day", "budget_tokens_month", "budget_tokens"), both)
        return {"rpm": 1, "itpm": input, "otpm": output, "max_streams": 1} | budgets


def limits_of(quota: Quota) -> dict[str, int | None]:
    return {name: getattr(quota, name) for name in Model.needs(0, 0)}


def periods(period: Period) -> tuple[str, str, str]:
    return f"d{period.day}", f"m{period.month}", "total"
