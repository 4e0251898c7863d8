"""Workers that come and go, and the lines that are drawn of their devices."""

from __future__ import annotations

from console.slo.devices import devices_of
from slo.picture import WorkerLoad

STEPS = 6


def a_worker(name: str, *seen: int, device: str = "cuda:0", value: float = 1.0, memory: float = 10.0) -> WorkerLoad:
    values = [value if step in seen else None for step in range(STEPS)]
    return WorkerLoad(
        worker=name, model="m", device=device, tokens_per_s=values, memory_used=values, memory_total=memory,
        kv_used=values, running=values,
    )  # fmt: skip


def test_a_successor_continues_the_line() -> None:
    workers = [a_worker("gpu-1-99", 4, 5, value=3.0), a_worker("gpu-1-7", 0, 1, 2, memory=20.0)]
    (name, line), *others = devices_of(workers).items()
    assert (name, others) == ("gpu-1 cuda:0", [])
    assert line.kv_used == line.running == line.memory_used == line.tokens_per_s == [1.0, 1.0, 1.0, None, 3.0, 3.0]
    assert line.memory_total == 20.0


def test_they_may_meet_in_a_step() -> None:
    (line,) = devices_of([a_worker("h-1", 0, 1, 2), a_worker("h-2", 2, 3, value=3.0)]).values()
    assert line.kv_used == [1.0, 1.0, 2.0, 3.0, None, None]


def test_workers_that_run_at_once_have_a_line_each() -> None:
    workers = [a_worker("h-1", 0, 1, 2), a_worker("h-2", 0, 1, 2, value=2.0), a_worker("h-3", 3, 4)]
    found = devices_of(workers)
    assert list(found) == ["h cuda:0", "h cuda:0 #2"]
    assert found["h cuda:0"].kv_used == [1.0, 1.0, 1.0, 1.0, 1.0, None]


def test_workers_that_came_in_one_step_are_not_taken_for_one() -> None:
    found = devices_of([a_worker("h-1", 5), a_worker("h-2", 5, value=3.0)])
    assert [line.tokens_per_s[5] for line in found.values()] == [1.0, 3.0]


def test_a_deploy_replaces_all_of_a_host() -> None:
    old = [a_worker("h-1", 0, 1, 2), a_worker("h-2", 0, 1, 2)]
    found = devices_of([*old, a_worker("h-3", 2, value=3.0), a_worker("h-4", 2, value=5.0)])
    assert [line.tokens_per_s[2] for line in found.values()] == [2.0, 3.0]


def test_hosts_and_devices_are_told_apart() -> None:
    workers = [a_worker("a-1", 0), a_worker("a-2", 3, device="cuda:1"), a_worker("b-3", 3), a_worker("c", 5, device="")]
    assert sorted(devices_of(workers)) == ["a cuda:0", "a cuda:1", "b cuda:0", "c"]


def test_a_month_of_deploys_is_one_line() -> None:
    assert list(devices_of(a_worker(f"h-{step}", step) for step in range(STEPS))) == ["h cuda:0"]


def test_one_of_which_nothing_was_seen() -> None:
    assert list(devices_of([a_worker("h-1"), a_worker("h-2", 0)])) == ["h cuda:0"]
