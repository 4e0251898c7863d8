"""`manage.py drain`."""

from __future__ import annotations

import io
import threading
import time

import pytest
import redis
from django.core.management import CommandError, call_command

from console.management.commands import drain as command
from console.processes import draining
from inference.protocol import keys
from tests.console.processes.tools import GATEWAY, WORKER, beat


def drain(*arguments: str) -> str:
    out = io.StringIO()
    call_command("drain", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def workers(store: redis.Redis) -> redis.Redis:
    for name in ("w-1", "w-2"):
        beat(store, name, WORKER)
    beat(store, "w-dead", WORKER, age_s=60)
    beat(store, "g-1", GATEWAY)
    return store


def test_it_works(workers: redis.Redis) -> None:
    assert drain("w-1", "g-1") == "w-1 is asked to drain.\ng-1 is asked to drain.\n"
    assert workers.exists(keys.drain("w-1"), keys.drain("g-1")) == 2
    assert not workers.exists(keys.drain("w-2"))


def test_all_workers(workers: redis.Redis) -> None:
    drain("--all-workers")
    assert workers.exists(keys.drain("w-1"), keys.drain("w-2")) == 2
    assert not workers.exists(keys.drain("w-dead"), keys.drain("g-1"))


def test_it_waits_until_they_have_ended(workers: redis.Redis) -> None:
    def obey() -> None:
        while not workers.exists(keys.drain("w-1")):
            pass
        workers.hdel(keys.WORKERS, "w-1")

    worker = threading.Thread(target=obey)
    worker.start()
    assert drain("w-1", "--wait").endswith("Drained.\n")
    worker.join()


def test_a_successor_of_the_same_name_is_another(workers: redis.Redis) -> None:
    def obey() -> None:
        while not workers.exists(keys.drain("w-1")):
            pass
        beat(workers, "w-1", WORKER | {"started_at": 1.0})

    worker = threading.Thread(target=obey)
    worker.start()
    assert drain("w-1", "--wait").endswith("Drained.\n")
    worker.join()


def test_one_that_is_held_up_is_waited_for(workers: redis.Redis) -> None:
    def be_held_up() -> None:
        while not workers.exists(keys.drain("w-1")):
            pass
        beat(workers, "w-1", WORKER, age_s=10)  # no longer fresh, and not gone
        time.sleep(3 * draining.LOOK_S)
        left.set()
        workers.hdel(keys.WORKERS, "w-1")

    left = threading.Event()
    worker = threading.Thread(target=be_held_up)
    worker.start()
    assert drain("w-1", "--wait").endswith("Drained.\n")
    assert left.is_set()
    worker.join()


def test_one_that_died_is_told_apart(workers: redis.Redis) -> None:
    def die() -> None:
        while not workers.exists(keys.drain("w-1")):
            pass
        beat(workers, "w-1", WORKER, age_s=60)
        workers.hdel(keys.WORKERS, "w-2")

    worker = threading.Thread(target=die)
    worker.start()
    said = drain("w-1", "w-2", "--wait")
    assert said.endswith("w-1 fell silent without leaving: it died, or hangs.\n")
    assert "rained." not in said
    worker.join()


def test_it_names_what_has_not_ended(workers: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MARGIN_S", -100.0)
    with pytest.raises(CommandError, match=r"Still there: w-1\."):
        drain("w-1", "--wait")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Expected the ids of processes, or --all-workers"),
        (("w-1", "--all-workers"), "Expected the ids of processes, or --all-workers"),
        (("nobody",), r"There is no process nobody\. Those that run: w-1, w-2, g-1\."),
        (("w-dead",), "There is nobody to ask: w-dead has been silent for 6"),
    ],
)
def test_it_refuses(workers: redis.Redis, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        drain(*arguments)


def test_it_refuses_where_no_worker_runs(store: redis.Redis) -> None:
    with pytest.raises(CommandError, match="No worker runs"):
        drain("--all-workers")
