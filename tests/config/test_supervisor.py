from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from config import supervisor
from config.leash import leashed
from config.output import Output
from config.supervisor import Program, Supervisor, pause_after
from inference.protocol.drains import EXIT_STATUS
from tests.config.transcript import Transcript, wait_for_end

FAREWELL = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.write(1, b"{name} is up\\n")
signal.sigwait([signal.SIGTERM])
os.write(1, b"{name} says bye\\n")
"""
STUBBORN = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
role = "leader" if os.fork() else "follower"
print(role, os.getpid(), "is up", flush=True)
while True: signal.pause()
"""


def program(code: str, *, name: str = "child", stage: int = 0, grace_s: float = 60.0, hint: str = "") -> Program:
    command = (sys.executable, "-I", "-S", "-c", code)
    return Program(name=name, command=command, environment=os.environ, stage=stage, grace_s=grace_s, hint=hint)


def pids_in(text: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"(\d+) is up", text)]


def pid_of(role: str, text: str) -> int:
    return int(re.findall(rf"{role} (\d+) is up", text)[0])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.001)


async def test_it_prefixes_lines() -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        running.start(program("import os; os.write(1, b'one\\ntwo\\r\\n'); os.write(2, b'\\xff no newline')"))
        await seen.until("no newline")

    assert "child     | one\nchild     | two\nchild     | \ufffd no newline\n" in seen.getvalue()


async def test_it_restarts_a_child_that_dies(quick: None) -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        running.start(program("print('hello'); raise SystemExit(3)"))
        await seen.until("| hello", times=3)

    assert "child ended with exit status 3 after" in seen.getvalue()


async def test_it_restarts_a_child_that_was_killed(quick: None) -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        running.start(program(STUBBORN, grace_s=0))
        first = await seen.until("is up", times=2)
        os.kill(pid_of("leader", first), signal.SIGKILL)  # not the lower of two pids: they wrap around
        await seen.until("is up", times=4)

    assert "was ended by SIGKILL" in seen.getvalue()
    wait_for_end(pid_of("follower", first))  # what the dead one had started does not outlive it


async def test_it_hints_after_quick_deaths(quick: None) -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        running.start(program("raise SystemExit(1)", hint="Try something else."))
        await seen.until("child died 3 times in a row. Try something else.")


async def test_it_survives_a_missing_program(quick: None) -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        running.start(Program(name="none", command=("/no/such/program",), environment=os.environ))
        await seen.until("cannot run /no/such/program: No such file or directory", times=2)


async def test_it_stops_stage_by_stage() -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        for stage, name in enumerate(("gateway", "worker", "redis")):
            running.start(program(FAREWELL.format(name=name), name=name, stage=stage))
        for name in ("gateway", "worker", "redis"):
            await seen.until(f"{name} is up")

    assert re.findall(r"(\w+) says bye", seen.getvalue()) == ["gateway", "worker", "redis"]
    assert "again" not in seen.getvalue()


async def test_it_kills_what_does_not_stop() -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        running.start(program(STUBBORN, grace_s=0.05))
        pids = pids_in(await seen.until("is up", times=2))

    assert "child did not stop after 0.05 s: killing it" in seen.getvalue()
    for pid in pids:
        wait_for_end(pid)


@pytest.fixture
def in_a_terminal() -> Iterator[None]:
    """A process that Ctrl-C reaches: those that pytest starts to run tests side by side ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_a_terminal")
async def test_it_stops_on_a_signal_and_hurries_on_the_second() -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        running.start(program(STUBBORN, grace_s=600))
        await seen.until("is up")
        os.kill(os.getpid(), signal.SIGINT)
        await running.stopping.wait()
        os.kill(os.getpid(), signal.SIGINT)

    assert "child did not stop: killing it" in seen.getvalue()


async def test_it_waits_only_until_it_is_stopped() -> None:
    async with Supervisor(Output(Transcript())) as running:
        os.kill(os.getpid(), signal.SIGTERM)

        assert await running.unless_stopped(Transcript().until("never")) is None


async def test_it_stops_a_child_that_pauses() -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        running.start(program("raise SystemExit(1)"))
        await seen.until("again in 0.1 s")

    assert seen.getvalue().count("again") == 1


@pytest.mark.parametrize("ignores", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_none_is_left_when_the_supervisor_is_killed(ignores: str) -> None:
    child = f"import os, signal; {ignores}\nprint('pid', os.getpid(), 'is up', flush=True)\nsignal.pause()"
    code = f"""
import asyncio, os, sys
from config.output import Output
from config.supervisor import Program, Supervisor
async def main():
    async with Supervisor(Output(sys.stdout)) as running:
        command = (sys.executable, "-c", {child!r})
        running.start(Program(name="child", command=command, environment=os.environ, grace_s=0.2))
        await running.stopping.wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        (pid,) = pids_in(parent.stdout.readline())
        parent.kill()

    wait_for_end(pid)


def test_a_leash_whose_holder_is_gone_runs_nothing() -> None:
    command = list(leashed(("echo", "hello")))
    command[4] = str(os.getppid())  # another process than ours

    run = subprocess.run(command, capture_output=True, text=True)

    assert (run.returncode, run.stdout) == (1, "")


def test_a_leash_leaves_signals_as_usual() -> None:
    def ignored(command: Sequence[str]) -> list[str]:
        status = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return re.findall(r"SigIgn:\t.+", status)

    command = ("cat", "/proc/self/status")
    assert ignored(leashed(command)) == ignored(command)


@pytest.mark.parametrize(
    ("deaths", "pause"), [(0, 0.1), (1, 0.1), (2, 0.2), (3, 0.4), (6, 3.2), (7, 5.0), (100_000, 5.0)]
)
def test_pauses_grow_to_a_limit(deaths: int, pause: float) -> None:
    assert pause_after(deaths) == pytest.approx(pause)


def test_it_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)

    class Terminal(Transcript):
        def isatty(self) -> bool:
            return True

    plain, coloured = Transcript(), Terminal()
    Output(plain).line("redis", "hello")
    Output(coloured).line("redis", "hello")

    assert plain.getvalue() == "redis     | hello\n"
    assert re.fullmatch(r"\x1b\[\d+mredis     \|\x1b\[0m hello\n", coloured.getvalue())


async def test_it_leaves_alone_what_was_drained(quick: None) -> None:
    seen = Transcript()

    async with Supervisor(Output(seen)) as running:
        running.start(program(f"raise SystemExit({EXIT_STATUS})", name="drained"))
        running.start(program("print('hello'); raise SystemExit(3)", name="other"))
        await seen.until("drained was drained and has ended")
        await seen.until("| hello", times=3)

    assert seen.getvalue().count("drained was drained") == 1
