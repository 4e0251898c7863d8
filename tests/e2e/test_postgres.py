"""PostgreSQL stops and starts again: whoever worked before goes on, nothing is lost, and what needs it says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest

from tests.databases import make_database, make_empty_database
from tests.e2e.conftest import Product, a_body, records_of, stream
from tests.environment import ROOT
from tests.postgres import Postgres

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.skipif("TEST_DATABASE_URL" not in os.environ, reason="a part of `make test-postgres`"),
]

GATEWAYS = 2


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server that may be stopped without harm to other tests."""
    with Postgres() as made:
        yield made


@pytest.fixture(scope="module")
def product(server: Postgres) -> Iterator[Product]:
    environment = {"SLUICE_SIM_TPOT_MS": "2", "DATABASE_URL": make_database(server.url)}
    made = Product(("--engine", "simulated", "--gateways", str(GATEWAYS)), environment).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


def message(product: Product, key: str) -> str:
    """Stream a message to its end; its id."""
    events = stream(product, key, a_body())
    assert events[-1].type == "message_stop"
    return str(events[0].data["message"]["id"])


def ask(product: Product, key: str) -> httpx.Response:
    return httpx.get(product.url + "/v1/requests", headers={"x-api-key": key})


def complaint(url: str, *command: str) -> str:
    """What a command says that cannot be run."""
    environment = os.environ | {"DATABASE_URL": url}
    done = subprocess.run(
        [sys.executable, "manage.py", *command], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("command", [("createkey", "x"), ("serve",)])
def test_a_database_without_tables_is_told_of(server: Postgres, command: tuple[str, ...]) -> None:
    assert "has no tables yet. Make them: manage.py migrate" in complaint(make_empty_database(server.url), *command)


def test_a_server_that_is_not_there_is_told_of(server: Postgres) -> None:
    url = server.url.replace(str(server.folder), "/nowhere")
    assert "Error: the database does not answer" in complaint(url, "createkey", "x")


def test_nothing_is_lost_while_it_is_away(product: Product, server: Postgres) -> None:
    key = product.manage("createkey", "steady", "--org", "steady")
    stranger = product.manage("createkey", "stranger")
    ids = [message(product, key) for _ in range(4)]  # both gateways know the key
    server.stop()
    ids += [message(product, key) for _ in range(20)]
    for url in ("/v1/requests", "/v1/requests/msg_1"):
        refused = httpx.get(product.url + url, headers={"x-api-key": key})
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "api_error")
        assert refused.headers["retry-after"]
    assert httpx.get(product.url + "/v1/models", headers={"x-api-key": stranger}).status_code == 503
    assert httpx.get(product.url + "/admin/login/").status_code in (200, 503)
    assert httpx.get(product.url + "/readyz").status_code == 200
    server.start()
    ids += [message(product, key) for _ in range(4)]
    records = records_of(product, key, len(ids))
    assert sorted(record["id"] for record in records) == sorted(ids)[-len(records) :]
    assert len(product.rows("SELECT id FROM records_requestrecord")) == len(ids)
    assert not [line for line in product.log.splitlines() if line.startswith("celery") and "Traceback" in line]


def test_a_restart_is_not_noticed(product: Product, server: Postgres) -> None:
    key = product.manage("createkey", "restart")
    assert {ask(product, key).status_code for _ in range(10)} == {200}
    server.stop()
    server.start()
    assert {ask(product, key).status_code for _ in range(20)} == {200}


def test_connections_are_few_and_idle(product: Product) -> None:
    key = product.manage("createkey", "crowd")
    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(lambda _: ask(product, key).status_code, range(200)))
    assert set(answers) == {200}
    query = "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    states = [state for (state,) in product.rows(query)]
    assert len(states) <= 10 * (GATEWAYS + 1)
    assert not {state for state in states if state.startswith("idle in transaction")}


def test_clients_that_leave_take_no_connection_along(product: Product) -> None:
    key = product.manage("createkey", "hasty")
    assert ask(product, key).status_code == 200

    def leave(_: int) -> None:
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(product.url + "/v1/requests", headers={"x-api-key": key}, timeout=httpx.Timeout(5, read=0.3))

    with psycopg.connect(product.database) as other, ThreadPoolExecutor(30) as threads:
        other.execute("LOCK TABLE records_requestrecord IN ACCESS EXCLUSIVE MODE")
        list(threads.map(leave, range(60)))  # more than the pools of the gateways have
    assert {ask(product, key).status_code for _ in range(40)} == {200}
