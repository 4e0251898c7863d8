"""`manage.py slo_report`."""

from __future__ import annotations

import io
import json

import pytest
import redis
from django.core.management import CommandError, call_command

from inference.protocol.minutes import ANSWERS, GOOD, LEFT_OUT, TTFT
from slo.rolling import roll_up
from tests.conftest import Tenant
from tests.slo.conftest import Counting

pytestmark = pytest.mark.django_db


@pytest.fixture
def counting(store: redis.Redis) -> Counting:
    return Counting(store)


def report(*words: str) -> tuple[str, int]:
    out, status = io.StringIO(), 0
    try:
        call_command("slo_report", *words, stdout=out)
    except SystemExit as ended:
        status = int(ended.code or 0)
    return out.getvalue(), status


def test_it_works(store: redis.Redis, counting: Counting) -> None:
    counting.of().observe(TTFT, [0.08, 0.095])
    counting.of().add(ANSWERS, GOOD, 2000)
    counting.of().add(ANSWERS, LEFT_OUT, 5)
    counting.of("n").add(ANSWERS, "bad:api_error")
    counting.send()
    roll_up(store)

    out, status = report()
    lines = [line.split("  ") for line in out.splitlines()]
    assert lines[0][0] == "OBJECTIVE"
    words = [[word.strip() for word in line if word.strip()] for line in lines]
    assert ["TTFT p99", "80.0 ms", "< 500 ms", "met"] in words
    assert ["TPOT p50", "-", "< 20 ms", "not measured"] in words
    assert ["Availability", "99.950 %", ">= 99.9 %", "met"] in words
    assert "2,000 good answers, 1 bad, 5 of no account. 50% of the error budget is left. Bad: api_error 1." in out
    assert status == 0

    out, status = report("--model", "n")
    assert "MISSED" in out
    assert status == 1


def test_where_nothing_was_measured_it_says_so() -> None:
    out, status = report("--window", "30d")
    assert "Nothing was measured in the last 30 days." in out
    assert status == 0


def test_json_is_of_one_organisation(store: redis.Redis, counting: Counting, alice: Tenant) -> None:
    counting.of("m", str(alice.key.organization_id)).add(ANSWERS, "bad:api_error", 3)
    counting.of("m", "another").add(ANSWERS, GOOD)
    counting.send()
    roll_up(store)
    out, status = report("--json", "--org", "alpha", "--window", "15m")
    told = json.loads(out)
    assert (told["good"], told["bad"], told["availability"], told["window"]) == (0, {"api_error": 3}, 0.0, "15m")
    assert {row["name"]: row["standing"] for row in told["objectives"]}["Errors"] == "missed"
    assert status == 1


def test_it_rejects_what_it_does_not_know() -> None:
    with pytest.raises(CommandError, match="There is no organisation called nobody"):
        report("--organization", "nobody")
    with pytest.raises(CommandError, match="--window"):
        report("--window", "2h")
