"""Times as people read them."""

from __future__ import annotations

_SIZES = ((86_400, "d"), (3600, "h"), (60, "min"))


def short(seconds: float) -> str:
    """Return a duration in its largest unit of which there are two or more: `90 s`, `5 min`, `3 h`, `2 d`."""
    for size, unit in _SIZES:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
