"""What one sees of a window."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from inference.protocol.minutes import ANSWERS, GOOD, LEFT_OUT, OUTCOMES, OUTPUT, TBT, TOKENS, TPOT, TRIGGERS, TTFT
from inference.protocol.sketches import RELATIVE_ERROR
from slo.look import look
from slo.models import Load
from slo.picture import Picture
from slo.rolling import roll_up
from slo.sampling import ACTIVE_STREAMS, KV_USED, Sample, store
from slo.windows import WINDOWS, Window, window_of
from tests.slo.conftest import Counting

pytestmark = pytest.mark.django_db

HOUR = WINDOWS["1h"]


def standings(picture: Picture) -> dict[str, str]:
    return {objective.name: objective.standing for objective in picture.objectives}


def picture(client: redis.Redis, counting: Counting, window: Window = HOUR, **filters: str) -> Picture:
    counting.send()
    roll_up(client)
    return look(window, now=counting.now, **filters)


def test_it_works(store: redis.Redis, counting: Counting) -> None:
    counts = counting.of()
    counts.observe(TTFT, [0.05] * 99 + [0.6])
    counts.observe(TPOT, [0.019])
    counts.observe(TBT, [0.05, 0.2])
    counts.add(ANSWERS, GOOD, 1998)
    counts.add(ANSWERS, "bad:overloaded_error", 2)
    counts.add(ANSWERS, LEFT_OUT, 7)
    counts.add(OUTCOMES, "end_turn", 3)
    counts.add(TRIGGERS, "pii (mask)")
    counts.add(TOKENS, OUTPUT, 100)
    counts.stage("queue", 4.0)
    counts.stage("queue", 8.0)
    counts.stage("auth", 1.0)

    seen = picture(store, counting)
    assert len(seen.starts) == 60
    assert seen.step_s == 60
    assert seen.starts[-1] <= counting.now < seen.starts[-1] + 60
    values = {objective.name: objective.value for objective in seen.objectives}
    assert values["TTFT p50"] == pytest.approx(50, rel=RELATIVE_ERROR)
    assert values["TBT p99"] == pytest.approx(50, rel=RELATIVE_ERROR), "of two, the lower one"
    assert values["Availability"] == pytest.approx(0.999)
    assert values["Errors"] == pytest.approx(0.001)
    assert standings(seen) == {
        "TTFT p50": "met", "TTFT p99": "met", "TPOT p50": "close", "TBT p99": "met", "Availability": "close",
        "Errors": "missed",
    }  # fmt: skip
    assert seen.answers.good[-1] == 1998
    assert seen.answers.bad == {"overloaded_error": [0] * 59 + [2]}
    assert sum(seen.answers.left_out) == 7
    assert seen.answers.burn_rate == pytest.approx(1.0)
    assert seen.answers.error_budget_left == pytest.approx(0.0, abs=1e-9)
    assert seen.outcomes["end_turn"][-1] == 3
    assert seen.triggers["pii (mask)"][-1] == 1
    assert seen.output_tokens[-1] == 100
    assert list(seen.stages) == ["auth", "queue"], "in the order of a request's life"
    assert seen.stages["queue"][-1] == 6.0
    assert seen.stages["queue"][0] is None
    assert seen.ttft.whole.count == 100
    assert seen.ttft.steps[0] is None
    assert seen.ttft.steps[-1] == seen.ttft.whole


def test_an_empty_window_says_so() -> None:
    seen = look(HOUR)
    assert set(standings(seen).values()) == {"unknown"}
    assert seen.answers.availability is seen.answers.burn_rate is seen.answers.error_budget_left is None
    assert not seen.ttft.whole
    assert seen.active_streams == [None] * 60
    assert seen.workers == []


@pytest.mark.parametrize(
    ("filters", "expected"),
    [({}, 4), ({"model": "m"}, 2), ({"organization": "o"}, 2), ({"model": "n", "organization": "p"}, 1),
     ({"model": "none"}, 0)],
)  # fmt: skip
def test_it_is_of_a_model_and_an_organisation(
    store: redis.Redis, counting: Counting, filters: dict[str, Any], expected: int
) -> None:
    for model in ("m", "n"):
        for organization in ("o", "p"):
            counting.of(model, organization).add(ANSWERS, GOOD)
    seen = picture(store, counting, **filters)
    assert sum(seen.answers.good) == expected


@pytest.mark.parametrize("window", WINDOWS.values(), ids=str)
def test_each_window_has_the_steps_it_needs(
    store: redis.Redis, counting: Counting, window: Window, django_assert_num_queries: Any
) -> None:
    counting.of().add(ANSWERS, GOOD)
    counting.of(ago_s=10 * 60).add(ANSWERS, GOOD)
    counting.send()
    roll_up(store)
    with django_assert_num_queries(2):
        seen = look(window, now=counting.now)
    assert len(seen.starts) == window.num_steps <= 720
    assert seen.starts[-1] + window.step_s - seen.starts[0] == window.seconds
    assert sum(seen.answers.good) == 2


def test_what_is_outside_the_window_is_not_seen(store: redis.Redis, counting: Counting) -> None:
    counting.of(ago_s=30 * 60).add(ANSWERS, GOOD)
    assert not sum(picture(store, counting, WINDOWS["15m"]).answers.good)
    assert sum(look(HOUR, now=counting.now).answers.good) == 1
    assert not sum(look(HOUR, now=counting.now - 3600).answers.good)


def test_load_is_a_mean_of_each_step(counting: Counting) -> None:
    now = counting.now
    for model, device in (("m", "GPU 0"), ("n", "GPU 1")):
        for tokens in (10.0, 30.0):
            values = {"tokens_per_s": tokens, KV_USED: 0.5, "memory_total": 100.0}
            store(now, [Sample(kind=Load.WORKER, name=f"w-{model}", model=model, device=device, values=values)])
        store(now, [Sample(kind=Load.QUEUE, model=model, values={"standard": 4.0, "batch": 0.0})])
    store(now, [Sample(kind=Load.GATEWAYS, values={ACTIVE_STREAMS: 7.0})])

    seen = look(HOUR, now=now)
    assert seen.active_streams[-1] == 7
    assert seen.active_streams[0] is None
    assert (seen.queued["standard"][-1], seen.queued["batch"][-1], seen.queued["priority"][-1]) == (8, 0, None)
    assert [(worker.worker, worker.device) for worker in seen.workers] == [("w-m", "GPU 0"), ("w-n", "GPU 1")]
    assert seen.workers[0].tokens_per_s[-1] == 20
    assert (seen.workers[0].kv_used[-1], seen.workers[0].memory_total) == (0.5, 100)
    assert seen.workers[0].running[-1] is None

    of_one = look(HOUR, model="m", now=now)
    assert [worker.worker for worker in of_one.workers] == ["w-m"]
    assert of_one.queued["standard"][-1] == 4


def test_an_unknown_window_is_refused() -> None:
    with pytest.raises(ValueError, match="window: '2h' is not one of 15m, 1h"):
        window_of("2h")
