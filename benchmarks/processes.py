"""The servers that are measured, each in processes of its own, and what `/proc` says of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from config.leash import leashed

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
MODEL = "SmolLM2-135M-Instruct"
CONTEXT = 131_072  # more than the model has, so that a prompt of 100 KB is served
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
READY_S = 90.0
MAX_BATCH = 1024  # streams of one worker: the most that may be set


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used, all threads together, in s."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) * TICK_S


def busy_s() -> float:
    """Return the CPU time that the whole machine has used, in s."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) * TICK_S  # less idle and waiting for disks


def rss(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the id and the command line of each process below one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    found = [pid]
    while found:
        for child in children.get(found.pop(), []):
            found.append(child)
            with contextlib.suppress(OSError):
                yield child, Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")


def _stat(pid: int) -> list[str]:
    """Return the fields of `/proc/PID/stat` from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@dataclass(frozen=True, kw_only=True)
class Target:
    """A server to be loaded: where, with which key, and its processes by what they do."""

    url: str
    key: str
    pid: int  # of the process above all others
    servers: tuple[int, ...]  # whose CPU time is counted for the events
    others: dict[str, int]
    manage: tuple[str, ...] = ()
    environment: dict[str, str] | None = None


@contextlib.contextmanager
def plain_daphne(*, events: int, rate: float) -> Iterator[Target]:
    """Run `raw_app.py` under Daphne as it is."""
    port = free_port()
    command: tuple[str, ...] = (sys.executable, "-m", "daphne", "-v", "0", "-p", str(port), "raw_app:app")
    environment = os.environ | {"EVENTS": str(events), "GAP_S": str(1 / rate)}
    with tempfile.TemporaryFile() as log, _running(command, environment, HERE, log.fileno()) as process:
        url = f"http://127.0.0.1:{port}"
        _until_it_answers(url + "/", process)
        yield Target(url=url, key="none", pid=process.pid, servers=(process.pid,), others={})


@contextlib.contextmanager
def product(*, rate: float, prefill_ms: float, gateways: int = 1, workers: int = 1) -> Iterator[Target]:
    """Run all of Sluice with the simulated engine, in a home of its own that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        environment = environment_in(Path(folder)) | {
            "SLUICE_MODELS": str(_roomy_models(Path(folder) / "models")),
            "SLUICE_MAX_BATCH": str(MAX_BATCH),
            "SLUICE_QUEUE_LIMIT": "5000",
            "SLUICE_EVENT_LOG_TTL_S": "5",
            "SLUICE_SIM_TPOT_MS": str(1000 / rate),
            "SLUICE_SIM_PREFILL_MS": str(prefill_ms),
        }
        numbers = ("--gateways", str(gateways), "--workers", str(workers))
        with serving(environment, "--engine", "simulated", *numbers) as target:
            yield target


@contextlib.contextmanager
def serving(environment: dict[str, str], *options: str, ready_s: float = READY_S) -> Iterator[Target]:
    """Run `manage.py serve` on a free port."""
    port = free_port()
    command = (sys.executable, str(ROOT / "manage.py"), "serve", "--port", str(port), *options)
    log = Path(environment["SLUICE_HOME"]).parent / "serve.log"
    with open(log, "wb") as out, _running(command, environment, ROOT, out.fileno()) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            _until_it_answers(url + "/readyz", process, ready_s, log)
            key = manage(environment, "createkey", "benchmark")
            servers, others = _parts(process.pid)
            yield Target(url=url, key=key, pid=process.pid, servers=servers, others=others, environment=environment)
        except RuntimeError:
            sys.stderr.write(log.read_text(errors="replace")[-4000:])
            raise


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run a `manage.py` command; return what it printed."""
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"manage.py {arguments[0]} failed: {done.stderr[-2000:]}")
    return done.stdout.strip()


def environment_in(folder: Path) -> dict[str, str]:
    """Return an environment for a Sluice that keeps its state in a folder and is otherwise as it comes."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    inherited.pop("REDIS_URL", None)
    inherited.pop("DATABASE_URL", None)
    return inherited | {
        "SLUICE_HOME": str(folder / "home"),
        "SLUICE_MODELS": str(models()),
        "SLUICE_DRAIN_S": "1",
    }


def models() -> Path:
    """Return the folder of the models."""
    return Path(os.environ.get("SLUICE_MODELS") or ROOT / "var" / "models").resolve()


def model_folder(model: str) -> Path:
    folder = models() / model
    if not folder.is_dir():
        sys.exit(f"There is no model in {folder}. Run `make model` first.")
    return folder


def _roomy_models(folder: Path) -> Path:
    """Make a model folder like the checkout's, but with room for a long prompt."""
    source = model_folder(MODEL)
    target = folder / MODEL
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.name != "config.json":
            (target / file.name).symlink_to(file.resolve())
    config = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | {"max_position_embeddings": CONTEXT}))
    return folder


def _parts(serve: int) -> tuple[tuple[int, ...], dict[str, int]]:
    """Find what `serve` has started."""
    gateways: list[int] = []
    others: dict[str, int] = {}
    for pid, command in descendants(serve):
        if "manage.py gateway" in command:
            gateways.append(pid)
        elif "-m inference" in command:
            others["worker"] = pid
        elif "redis-server" in command or "valkey-server" in command:
            others["Redis"] = pid
    if not gateways:
        raise RuntimeError("serve runs no gateway")
    return tuple(gateways), others


@contextlib.contextmanager
def _running(
    command: tuple[str, ...], environment: dict[str, str], folder: Path, output: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that ends with the block, and also when we are killed."""
    process = subprocess.Popen(
        leashed(command), env=environment, cwd=folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)  # `serve` stops its children in order
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_it_answers(
    url: str, process: subprocess.Popen[bytes], ready_s: float = READY_S, log: Path | None = None
) -> None:
    give_up = time.monotonic() + ready_s
    while time.monotonic() < give_up and process.poll() is None and not _dies_again_and_again(log):
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"nobody answers at {url}")


def _dies_again_and_again(log: Path | None) -> bool:
    """Say whether `serve` has told that a part of it cannot live."""
    return log is not None and " times in a row." in log.read_text(errors="replace")
