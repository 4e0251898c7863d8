"""A script: kills the process groups that `serve` leaves when it is killed itself.

It reads `+PID SECONDS` and `-PID` from its standard input. When that ends, however it came to that, those still listed
get their seconds (their leash has told them to stop) and then SIGKILL.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time


class Guard:
    """The process that runs this script, seen from the one it stands behind."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", os.path.abspath(__file__)], stdin=subprocess.PIPE, start_new_session=True
        )

    def watch(self, pid: int, grace_s: float) -> None:
        self._tell(f"+{pid} {grace_s}\n")

    def forget(self, pid: int) -> None:
        self._tell(f"-{pid}\n")

    def close(self) -> None:
        assert self._process.stdin is not None, "it was started with a pipe"
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None, "it was started with a pipe"
        try:
            os.write(self._process.stdin.fileno(), line.encode())
        except BrokenPipeError:
            pass  # someone killed it; the leashes are still there


def kill_group(leader: int, number: int = signal.SIGKILL) -> bool:
    """Signal all that a process has started and left; return whether there was anything."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):  # macOS says the second of a group of zombies
        return False
    return True


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    grace: dict[int, float] = {}
    for line in sys.stdin:
        pid, _, seconds = line[1:].partition(" ")
        if line[0] == "+":
            grace[int(pid)] = float(seconds)
        else:
            grace.pop(int(pid), None)
    end_within(grace)


def end_within(grace: dict[int, float]) -> None:
    begun = time.monotonic()
    while grace:
        for pid, seconds in list(grace.items()):
            late = time.monotonic() - begun > seconds
            # A group that is gone is never looked at again: its number may come to mean another.
            if not kill_group(pid, signal.SIGKILL if late else 0) or late:
                del grace[pid]
        time.sleep(0.1)


if __name__ == "__main__":
    main()
