"""The end of a worker that hangs."""

from __future__ import annotations

import subprocess
import sys
import threading

from inference.watchdog import EXIT_STATUS, Watchdog


def test_it_works() -> None:
    ended = threading.Event()
    with Watchdog(0.2, end=ended.set):
        assert ended.wait(10)


def test_steps_that_come_back_are_left_alone() -> None:
    ended = threading.Event()
    watchdog = Watchdog(0.2, end=ended.set)
    for _ in range(20):
        with watchdog:
            assert not ended.wait(0.02)


def test_waiting_between_steps_is_no_fault() -> None:
    ended = threading.Event()
    with Watchdog(0.1, end=ended.set):
        pass
    assert not ended.wait(0.4)


def test_a_worker_that_hangs_ends_and_says_where() -> None:
    program = "import threading\nfrom inference.watchdog import Watchdog\nwith Watchdog(0.2): threading.Event().wait()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.returncode == EXIT_STATUS
    assert "does not come back" in done.stderr
    assert "line 3 in <module>" in done.stderr
