"""The page of workers and gateways."""

from __future__ import annotations

import re

import pytest
import redis
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from console.processes import views
from inference.protocol import drains, keys
from tests.conftest import Staff
from tests.console.processes.tools import GATEWAY, STARTED_AT, WORKER, beat

pytestmark = pytest.mark.django_db

PAGE = "/admin/console/workers/"


def text_of(client: Client, path: str = PAGE) -> str:
    """Return what a page says, without its tags."""
    r = client.get(path)
    assert r.status_code == 200, r
    return " ".join(re.sub(r"<[^>]+>", " ", r.content.decode()).split())


def test_it_works(admin_client: Client, store: redis.Redis) -> None:
    beat(store, "w-1", WORKER)
    beat(store, "g-1", GATEWAY)
    store.set(keys.CELERY, "1", ex=keys.CELERY_S)
    text = text_of(admin_client)
    for shown in (
        "w-1 runs", "m · simulated · cuda:0", "Running 3 of 32", "KV cache 1,024 of 4,096 tokens", "25.0 %", "123.4",
        "Sluice 0.1.0 · torch 2.11.0 · h, process 7", "g-1 runs", "Open streams 5", "Open connections 9",
        "Celery works", "Redis", "SQLite" if "SQLite" in text else "PostgreSQL",
    ):  # fmt: skip
        assert shown in text, shown
    assert "Drain…" in text


def test_it_says_what_would_be_there(admin_client: Client, store: redis.Redis) -> None:
    text = text_of(admin_client)
    assert "No worker runs." in text
    assert "No gateway tells of itself." in text
    assert "Celery late It has run no periodic task for a day." in text


def test_what_is_silent_or_draining_is_told_apart(admin_client: Client, store: redis.Redis) -> None:
    beat(store, "w-1", WORKER, age_s=300)
    beat(store, "w-2", WORKER | {"draining": True})
    store.hset(keys.WORKERS, "w-3", "what a version to come may say")
    text = text_of(admin_client)
    assert "w-1 silent for 5 min" in text
    assert "w-2 draining" in text
    assert "w-3 cannot be read" in text
    assert "Drain…" not in text, "there is none to ask"


def test_one_of_an_older_version_tells_less(admin_client: Client, store: redis.Redis) -> None:
    beat(store, "w-1", {"model": "m"})
    beat(store, "g-1", {"active_streams": 1})
    text = text_of(admin_client)
    assert "w-1 runs" in text
    assert "Drain…" not in text


def test_names_are_text(admin_client: Client, store: redis.Redis) -> None:
    beat(store, "<b>w", WORKER | {"model": "<script>"})
    page = admin_client.get(PAGE).content.decode()
    assert "<b>w" not in page
    assert "&lt;script&gt;" in page


def test_it_answers_without_redis(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "connection", lambda: redis.Redis.from_url("unix:///nowhere.sock"))
    assert "Redis does not answer" in text_of(admin_client)
    assert admin_client.post(f"{PAGE}w-1/drain/").headers["location"] == PAGE


def test_it_asks_the_database_as_often_for_any_number(
    admin_client: Client, store: redis.Redis, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(40):
        beat(store, f"w-{number}", WORKER)
    with django_assert_max_num_queries(6):
        text_of(admin_client)


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}w-1/drain/"])
def test_others_are_kept_out(client: Client, staff: Staff, path: str) -> None:
    assert client.get(path).status_code == 302
    assert client.post(path).status_code == 302
    assert staff("view_streams").get(path).status_code == 403


class TestDrain:
    PATH = f"{PAGE}w-1/drain/"

    def test_it_works(self, admin_client: Client, store: redis.Redis) -> None:
        beat(store, "w-1", WORKER)
        beat(store, "w-2", WORKER)
        assert "The 3 that it runs may go on for" in text_of(admin_client, self.PATH)
        assert not store.exists(keys.drain("w-1")), "it has only been asked about"

        r = admin_client.post(self.PATH, follow=True)

        assert "Asked w-1 to drain" in r.content.decode()
        assert store.get(keys.drain("w-1")) == drains.note(STARTED_AT)
        assert 0 < store.ttl(keys.drain("w-1")) <= drains.NOTE_S
        entry = LogEntry.objects.get()
        assert (entry.object_id, entry.change_message) == ("w-1", "Asked the worker to drain.")
        assert admin_client.get("/admin/").status_code == 200, "whose recent actions have it"

    def test_it_warns_of_the_last_one(self, admin_client: Client, store: redis.Redis) -> None:
        beat(store, "w-1", WORKER)
        beat(store, "w-2", WORKER | {"model": "another"})
        beat(store, "w-3", WORKER | {"draining": True})
        assert "This is the last worker that serves m." in text_of(admin_client, self.PATH)
        beat(store, "w-4", WORKER)
        assert "This is the last" not in text_of(admin_client, self.PATH)

    def test_a_gateway(self, admin_client: Client, store: redis.Redis) -> None:
        beat(store, "g-1", GATEWAY)
        assert "This is the last gateway" in text_of(admin_client, f"{PAGE}g-1/drain/")
        admin_client.post(f"{PAGE}g-1/drain/")
        assert store.exists(keys.drain("g-1"))

    def test_it_refuses_one_that_would_not_hear_of_it(self, admin_client: Client, store: redis.Redis) -> None:
        beat(store, "w-1", WORKER, age_s=60)
        assert "There is nobody to ask" in admin_client.post(self.PATH, follow=True).content.decode()
        assert not LogEntry.objects.exists()

    def test_one_that_drains_is_not_asked_again(self, admin_client: Client, store: redis.Redis) -> None:
        beat(store, "w-1", WORKER | {"draining": True})
        assert "The worker w-1 drains already." in admin_client.post(self.PATH, follow=True).content.decode()
        assert not LogEntry.objects.exists()

    def test_it_refuses_one_that_nobody_knows(self, admin_client: Client, store: redis.Redis) -> None:
        assert admin_client.post(self.PATH).status_code == 404

    def test_to_see_is_not_to_act(self, staff: Staff, store: redis.Redis) -> None:
        beat(store, "w-1", WORKER)
        viewer = staff("view_processes")
        assert "Drain…" not in text_of(viewer)
        assert viewer.post(self.PATH).status_code == 403
        assert not store.exists(keys.drain("w-1"))

    def test_it_wants_the_token_of_its_form(self, admin_user: User, store: redis.Redis) -> None:
        beat(store, "w-1", WORKER)
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(admin_user)
        assert strict.post(self.PATH).status_code == 403
        assert not store.exists(keys.drain("w-1"))
