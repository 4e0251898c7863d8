"""`manage.py streams`."""

from __future__ import annotations

import io
import json
import os
from unittest.mock import patch

import pytest
import redis
from django.core.management import CommandError, call_command
from pytest_django import DjangoAssertNumQueries

from tests.conftest import Tenant
from tests.console.tools import begin, claim, end, queue


def streams(*words: str, columns: str = "") -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    with patch.dict(os.environ, {"COLUMNS": columns}):
        call_command("streams", *words, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.fixture
def two(store: redis.Redis, alice: Tenant, charlie: Tenant) -> None:
    """A message of each that waits; Alice's is begun."""
    for tenant in (alice, charlie):
        queue(store, f"msg_{tenant.key.name}", organization=tenant.key.organization_id, key=tenant.key.pk)
    begin(store, *claim(store))


@pytest.mark.usefixtures("two")
class TestStreams:
    def test_it_works(self) -> None:
        out, err = streams()
        head, first, second = (line.split() for line in out.splitlines())
        assert head == [
            "MESSAGE", "KEY", "ORGANISATION", "STATE", "TOKENS", "TOK/S", "TTFT", "AGE", "TRY", "READERS", "MODEL",
            "WORKER", "GATEWAY",
        ]  # fmt: skip
        assert first[:5] == ["msg_alice", "alice", "alpha", "decoding", "2"]
        assert first[8:] == ["1", "0", "m", "w-1", "-"]
        assert second[:5] == ["msg_charlie", "charlie", "gamma", "queued", "0"]
        assert err == ""

    def test_json_has_names_and_ids(self, alice: Tenant) -> None:
        (row,) = json.loads(streams("--org", "alpha", "--json")[0])
        assert (row["id"], row["key"], row["key_id"]) == ("msg_alice", "alice", alice.key.pk)
        assert (row["organization"], row["organization_id"]) == ("alpha", alice.key.organization_id)
        assert (row["state"], row["output_tokens"], row["attempt"]) == ("decoding", 2, 1)

    def test_those_that_ended_are_asked_for(self, store: redis.Redis) -> None:
        name, pen = claim(store)
        end(store, name, pen, begin(store, name, pen))
        assert "msg_charlie" not in streams()[0]
        assert "end_turn" in streams("--ended", "--org", "gamma")[0]

    def test_a_narrow_terminal_is_told_what_it_lacks(self) -> None:
        out, err = streams(columns="60")
        assert max(map(len, out.splitlines())) <= 60
        assert "No room for" in err

    def test_a_key_that_was_deleted_is_shown_by_its_id(self, alice: Tenant) -> None:
        id = alice.key.pk
        alice.key.delete()
        assert id in streams()[0]

    def test_it_costs_two_queries(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(2):
            streams()

    def test_it_rejects_an_unknown_organisation(self) -> None:
        with pytest.raises(CommandError, match="no organisation called nobody"):
            streams("--org", "nobody")


def test_none_is_said_apart(db: None, store: redis.Redis) -> None:
    assert streams() == ("", "No stream is open or queued.\n")
    assert json.loads(streams("--json")[0]) == []


def test_a_redis_that_is_away_is_told_of(db: None) -> None:
    nobody = redis.Redis.from_url("unix:///nowhere/redis.sock")
    with (
        patch("console.management.redis_command.connection", lambda: nobody),
        pytest.raises(CommandError, match="Redis does not answer"),
    ):
        streams()
