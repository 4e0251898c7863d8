"""Workers and gateways that operators drain: no stream is lost, and they do not come back."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.conftest import Event, Product, a_body, records_of, stream, text_of

pytestmark = pytest.mark.e2e

PASSWORD = "a-long-pass-phrase"
DRAIN_S = 2  # the short streams end within it, the long ones do not
SHORT, LONG = 20, 500


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    environment = {
        "SLUICE_SIM_TPOT_MS": "10",
        "SLUICE_DRAIN_S": str(DRAIN_S),
        "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
    }
    made = Product(("--engine", "simulated", "--workers", "2", "--gateways", "2"), environment).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


@pytest.fixture(scope="module")
def operator(product: Product) -> Iterator[httpx.Client]:
    product.manage("createsuperuser", "--noinput", "--username", "root", "--email", "root@example.org")
    with httpx.Client(base_url=product.url, follow_redirects=True) as client:
        login = {"username": "root", "password": PASSWORD, "next": "/admin/"}
        page = client.post("/admin/login/", data=login | token_of(client.get("/admin/login/")))
        assert "Log out" in page.text
        yield client


def token_of(page: httpx.Response) -> dict[str, str]:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found
    return {"csrfmiddlewaretoken": found[1]}


def ids_of(product: Product, part: str) -> dict[str, int]:
    """The processes of a part, as the page calls them."""
    host = os.uname().nodename
    return {f"{host}-{pid}": pid for pid in product.processes(part)}


def wait_for(happened: Callable[[], bool], product: Product, within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline, product.log[-4000:]
        time.sleep(0.1)


def running(operator: httpx.Client) -> dict[str, str]:
    """What the page says of each worker and gateway."""
    page = operator.get("/admin/console/workers/").text
    cards = re.findall(r'aria-label="(?:Worker|Gateway) ([^"]+)">(.*?)</section>', page, re.DOTALL)
    return {name: " ".join(re.sub(r"<[^>]+>", " ", card).split()) for name, card in cards}


def busy(operator: httpx.Client, workers: Iterable[str]) -> str:
    """Return a worker that runs something, "" where none does."""
    cards = running(operator)
    return next((worker for worker in workers if "Running 0" not in cards.get(worker, "Running 0")), "")


def logged(events: list[Event]) -> list[int]:
    return [int(event.id) for event in events if event.id]


def test_a_drained_worker_loses_no_stream(product: Product, operator: httpx.Client) -> None:
    key = product.manage("createkey", "drained", "--org", "drained")
    expected = text_of(stream(product, key, a_body(max_tokens=LONG)))
    workers = ids_of(product, "-m inference")
    wait_for(lambda: not busy(operator, workers), product)  # the page is a heartbeat behind, and still has that one
    lengths = [LONG] * 6 + [SHORT] * 6
    with ThreadPoolExecutor(len(lengths)) as pool:
        streams = [pool.submit(stream, product, key, a_body(max_tokens=LONG)) for _ in range(6)]
        wait_for(lambda: busy(operator, workers) != "", product)
        drained = busy(operator, workers)  # with long ones
        streams += [pool.submit(stream, product, key, a_body(max_tokens=SHORT)) for _ in range(6)]
        form = operator.get(f"/admin/console/workers/{drained}/drain/")
        asked = operator.post(f"/admin/console/workers/{drained}/drain/", data=token_of(form))
        assert f"Asked {drained} to drain" in asked.text
        wait_for(lambda: "draining" in running(operator).get(drained, "draining"), product)
        late = pool.submit(stream, product, key, a_body(max_tokens=SHORT))
        got = [future.result() for future in streams]

    for events, length in zip(got, lengths, strict=True):
        assert events[-1].type == "message_stop"
        assert logged(events) == list(range(1, len(logged(events)) + 1)), "no gap, no repeat"
        assert text_of(events) == expected or length == SHORT
    assert late.result()[-1].type == "message_stop"
    late_id = late.result()[0].data["message"]["id"]
    wait_for(lambda: drained not in running(operator), product)
    wait_for(lambda: "was drained and has ended" in product.log, product)
    assert drained not in ids_of(product, "-m inference")
    rows = records_of(product, key, len(lengths) + 2)
    assert {row["outcome"] for row in rows} == {"max_tokens"}
    assert max(row["attempts"] for row in rows) == 2, "some were handed over"
    worker_of = dict(product.rows("SELECT id, worker FROM records_requestrecord"))
    assert drained in worker_of.values()
    assert worker_of[late_id] != drained, "it took no more"


def test_a_drained_gateway_is_not_started_again(product: Product) -> None:
    drained, pid = min(ids_of(product, "manage.py gateway").items())
    said = product.manage("drain", drained, "--wait")
    assert said == f"{drained} is asked to drain.\nDrained."
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), product)
    wait_for(lambda: len(re.findall(r"gateway-\d was drained and has ended", product.log)) == 1, product)
    assert httpx.get(product.url + "/readyz").json() == {"status": "ok"}
    assert len(ids_of(product, "manage.py gateway")) == 1
