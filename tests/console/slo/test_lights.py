"""The row of traffic lights."""

from __future__ import annotations

from console.slo.lights import lights_of
from tests.console.slo.pictures import objectives


def test_it_works() -> None:
    values = {"TTFT p50": 54.0, "TTFT p99": 472.0, "TBT p99": 131.2, "Availability": 0.99954, "Errors": 0.00046}
    found = {
        light.name: (light.standing, light.sign, light.value, light.target) for light in lights_of(objectives(values))
    }
    assert found == {
        "TTFT p50": ("met", "✓", "54 ms", "< 100 ms"),
        "TTFT p99": ("close", "!", "472 ms", "< 500 ms"),
        "TPOT p50": ("unknown", "-", "-", "< 20 ms"),
        "TBT p99": ("missed", "✗", "131 ms", "< 100 ms"),
        "Availability": ("met", "✓", "99.954 %", "≥ 99.9 %"),
        "Errors": ("met", "✓", "0.046 %", "< 0.1 %"),
    }
