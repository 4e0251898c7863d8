"""Who makes the table, and when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import redis
from django.db import OperationalError
from pytest_django import DjangoAssertNumQueries

from accounts.models import ApiKey
from console.live.maker import Maker
from console.live.names import NameBook
from console.live.table import Message, decode
from console.tasks import make_table
from inference.protocol import keys
from tests.conftest import Tenant
from tests.console.live.test_table import data_of
from tests.console.tools import begin, claim, queue

pytestmark = pytest.mark.django_db


class Ear:
    """Hears what is published."""

    def __init__(self, store: redis.Redis) -> None:
        client: Any = store  # redis-py has no types for this
        self._heard = client.pubsub(ignore_subscribe_messages=True)
        self._heard.subscribe(keys.TABLE)
        self._heard.get_message(timeout=5)

    def all(self) -> list[Message]:
        found = iter(lambda: self._heard.get_message(timeout=0.05), None)
        return [decode(message["data"]) for message in found]

    def close(self) -> None:
        self._heard.close()


@pytest.fixture
def ear(store: redis.Redis) -> Iterator[Ear]:
    ear = Ear(store)
    yield ear
    ear.close()


def test_it_works(store: redis.Redis, alice: Tenant, ear: Ear) -> None:
    queue(store, "msg_1", organization=alice.key.organization_id, key=alice.key.pk)
    maker = Maker(store)
    maker.turn()
    (whole,) = ear.all()
    ((number, *row),) = data_of(whole)["rows"]
    assert row[:3] == ["msg_1", "alice", "alpha"]
    begin(store, *claim(store))
    maker.turn()
    (changes,) = ear.all()
    assert changes.number == whole.number + 1
    assert data_of(changes)["rows"][0][0] == number


def test_the_whole_is_told_to_who_asks(store: redis.Redis, ear: Ear) -> None:
    maker = Maker(store)
    maker.turn()
    ear.all()
    store.set(keys.ASKED, "1")
    maker.turn()
    maker.turn()
    assert [message.kind for message in ear.all()] == ["changes", "whole", "changes"]


def test_names_are_looked_up_once(
    store: redis.Redis, alice: Tenant, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    queue(store, "msg_1", "msg_2", organization=alice.key.organization_id, key=alice.key.pk)
    maker = Maker(store)
    with django_assert_num_queries(2):
        maker.turn()
        maker.turn()


def test_names_that_change_are_learned(store: redis.Redis, alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.live.names.AGE_S", 0.0)
    book = NameBook()
    stream = SimpleNamespace(organization=alice.key.organization_id, key=str(alice.key.pk))
    assert book.learn([stream]).key(stream) == "alice"
    ApiKey.objects.filter(pk=alice.key.pk).update(name="renamed")
    assert book.learn([stream]).key(stream) == "renamed"


def test_without_a_database_old_names_go_on(monkeypatch: pytest.MonkeyPatch, alice: Tenant) -> None:
    monkeypatch.setattr("console.live.names.AGE_S", 0.0)
    book = NameBook()
    old = SimpleNamespace(organization=alice.key.organization_id, key=str(alice.key.pk))
    new = SimpleNamespace(organization="org_new", key="key_new")
    book.learn([old])
    with patch("console.live.names.names_of", side_effect=OperationalError("away")) as asked:
        names = [book.learn([old, new]) for _ in range(3)][-1]
    assert (names.key(old), names.organization(old), names.key(new)) == ("alice", "alpha", "key_new")
    assert asked.call_count == 1, "what does not answer is left alone for a while"
    monkeypatch.setattr(book, "_paused_until", 0.0)
    ApiKey.objects.filter(pk=alice.key.pk).update(name="renamed")
    assert book.learn([old]).key(old) == "renamed"


def test_while_nobody_watches_nothing_is_made(store: redis.Redis, ear: Ear) -> None:
    make_table()
    assert ear.all() == []


def test_it_ends_when_nobody_watches_any_more(store: redis.Redis, ear: Ear) -> None:
    store.set(keys.WATCHED, "1", px=50)
    make_table()
    assert [message.kind for message in ear.all()] == ["whole"]
    assert not store.exists(keys.TABLE_MAKER), "another may begin at once"


def test_there_is_one_of_all(store: redis.Redis, ear: Ear) -> None:
    store.set(keys.WATCHED, "1")
    store.set(keys.TABLE_MAKER, "another")
    make_table()
    assert ear.all() == []
    assert store.get(keys.TABLE_MAKER) == b"another"


def test_one_that_stops_makes_no_more(store: redis.Redis, ear: Ear) -> None:
    store.set(keys.WATCHED, "1")
    stopping = threading.Event()
    stopping.set()
    Maker(store).run(stopping)
    assert ear.all() == []
    assert not store.exists(keys.TABLE_MAKER)


def test_a_later_table_has_later_numbers(store: redis.Redis, ear: Ear) -> None:
    first = Maker(store)
    for _ in range(3):
        first.turn()
    numbers = [message.number for message in ear.all()]
    Maker(store).turn()
    assert ear.all()[0].number > numbers[0]
