"""A Redis Cluster of three nodes."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from config.embedded_redis import find_server

NODES = 3
SLOTS = 16384
BUS = 10_000  # a node's other port lies so much higher
START_S = 30.0


def free_port() -> int:
    """Return a port that is free, as is the one for the bus."""
    while True:
        with socket.socket() as port, socket.socket() as bus:
            port.bind(("127.0.0.1", 0))
            number = int(port.getsockname()[1])
            try:
                bus.bind(("127.0.0.1", number + BUS))
            except (OSError, OverflowError):
                continue
            return number


@pytest.fixture(scope="session")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster; all of it runs while this is held."""
    folder = tmp_path_factory.mktemp("cluster")
    ports = [free_port() for _ in range(NODES)]
    processes = [_start(port, folder / str(port)) for port in ports]
    try:
        _join([redis.Redis(port=port) for port in ports])
        yield f"redis://127.0.0.1:{ports[0]}"
    finally:
        for process in processes:
            process.kill()
            process.wait(10)


@pytest.fixture
def cluster(cluster_url: str) -> Iterator[redis.RedisCluster]:
    """A client of an empty cluster."""
    client = redis.RedisCluster.from_url(cluster_url)
    client.flushall(target_nodes=redis.RedisCluster.PRIMARIES)
    yield client
    client.close()


def _start(port: int, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir()
    options = {"port": port, "bind": "127.0.0.1", "cluster-enabled": "yes", "save": "", "dir": folder}
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return subprocess.Popen([find_server(), *arguments], stdout=subprocess.DEVNULL)


def _join(nodes: list[redis.Redis]) -> None:
    for number, node in enumerate(nodes):
        _until(node.ping)
        node.execute_command("CLUSTER ADDSLOTS", *range(SLOTS * number // NODES, SLOTS * (number + 1) // NODES))  # type: ignore[no-untyped-call]  # redis-py's gap
        nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", node.connection_pool.connection_kwargs["port"])  # type: ignore[no-untyped-call]
    for node in nodes:
        _until(lambda node=node: _is_whole(node))
        node.close()


def _is_whole(node: redis.Redis) -> bool:
    info = cast(dict[str, Any], node.execute_command("CLUSTER INFO"))  # type: ignore[no-untyped-call]
    return bool(info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(NODES))


def _until(holds: Any) -> None:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up:
        try:
            if holds():
                return
        except redis.ConnectionError:
            pass
        time.sleep(0.05)
    raise AssertionError("the cluster does not come up")
