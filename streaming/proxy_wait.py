"""How long a request was with a proxy before it came to us, where that says so: `X-Request-Start`.

There is no standard for it: seconds, milliseconds or microseconds since the epoch, with or without `t=` before them.
Clocks of two machines differ, so what cannot be is left out.
"""

from __future__ import annotations

HEADER = b"x-request-start"
LONGEST_MS = 600_000.0

_UNITS = ((1e14, 1e3), (1e11, 1.0), (1e8, 1e-3))  # from where on a number is in µs, ms, s; how many of it are a ms


def waited_ms(header: str, now: float) -> float | None:
    """Return the wait that a header tells of, up to `now` in seconds; None where it tells nothing that can be."""
    try:
        stamp = float(header.strip().removeprefix("t="))
    except ValueError:
        return None
    for least, per_ms in _UNITS:
        if stamp >= least:
            waited = now * 1000 - stamp / per_ms
            return round(waited, 3) if 0 <= waited <= LONGEST_MS else None
    return None
