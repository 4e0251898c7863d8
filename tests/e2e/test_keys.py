"""Keys, on two gateways: revoked within a second, and good without a database."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.e2e.conftest import Product

pytestmark = pytest.mark.e2e


def status(product: Product, key: str) -> int:
    """Ask on a connection of its own, which either gateway may take."""
    return httpx.get(product.url + "/v1/models", headers={"x-api-key": key}).status_code


def test_a_revoked_key_is_refused_within_a_second(simulated: Product) -> None:
    key = simulated.manage("createkey", "doomed")
    assert {status(simulated, key) for _ in range(20)} == {200}
    simulated.manage("revokekey", "doomed")
    time.sleep(1)
    assert {status(simulated, key) for _ in range(20)} == {401}


def test_a_rotated_key_has_two_texts_for_a_while(simulated: Product) -> None:
    old = simulated.manage("createkey", "rotated")
    assert status(simulated, old) == 200
    new = simulated.manage("rotatekey", "rotated", "--overlap", "1h")
    assert {status(simulated, key) for key in (old, new) for _ in range(10)} == {200}
    newest = simulated.manage("rotatekey", "rotated", "--overlap", "0")
    time.sleep(1)
    assert {status(simulated, key) for key in (old, new) for _ in range(10)} == {401}
    assert status(simulated, newest) == 200


def test_without_the_database_a_key_goes_on_at_every_gateway(simulated: Product) -> None:
    key = simulated.manage("createkey", "steady")
    assert status(simulated, key) == 200, "one of them knows it now"
    with simulated.without_database():
        assert {status(simulated, key) for _ in range(40)} == {200}
    assert status(simulated, key) == 200


def test_no_key_is_in_the_log(simulated: Product) -> None:
    key = simulated.manage("createkey", "quiet")
    assert status(simulated, key) == 200
    assert status(simulated, key[:-1] + "_") == 401
    assert key[:-1] not in simulated.log
