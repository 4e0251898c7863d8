"""The windows of time that one can look at, and how finely each is measured."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_S = 60
QUARTER_S = 900
HOUR_S = 3600
THREE_HOURS_S = 3 * HOUR_S
DAY_S = 24 * HOUR_S
STEPS_S = (MINUTE_S, QUARTER_S, HOUR_S, THREE_HOURS_S)  # each is made of the one before


@dataclass(frozen=True, slots=True)
class Window:
    """So much time up to now, in steps."""

    name: str  # as in a URL or on a command line
    label: str
    seconds: int
    step_s: int

    @property
    def num_steps(self) -> int:
        return self.seconds // self.step_s

    def starts(self, now: float) -> range:
        """Return the beginnings of the steps, in seconds since the epoch; the last one has `now` in it."""
        end = (int(now) // self.step_s + 1) * self.step_s
        return range(end - self.num_steps * self.step_s, end, self.step_s)


WINDOWS = {
    window.name: window
    for window in (
        Window("15m", "15 minutes", 15 * 60, MINUTE_S),
        Window("1h", "1 hour", HOUR_S, MINUTE_S),
        Window("6h", "6 hours", 6 * HOUR_S, MINUTE_S),
        Window("24h", "24 hours", DAY_S, QUARTER_S),
        Window("7d", "7 days", 7 * DAY_S, HOUR_S),
        Window("30d", "30 days", 30 * DAY_S, THREE_HOURS_S),
    )
}
DEFAULT = WINDOWS["1h"]


def window_of(name: str) -> Window:
    """Return the window of a name; raise `ValueError` for what is none."""
    if name not in WINDOWS:
        raise ValueError(f"window: {name!r} is not one of {', '.join(WINDOWS)}.")
    return WINDOWS[name]
