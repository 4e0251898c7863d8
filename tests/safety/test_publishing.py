"""What gateways and workers are told of policies."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any, cast

import pytest
import redis
from django.test import override_settings
from pytest_django import DjangoCaptureOnCommitCallbacks
from redis.backoff import NoBackoff
from redis.retry import Retry

from inference.protocol.policies import CURRENT, DEFINITIONS, PHRASES, SPAN_KEY, Policy, built_in
from safety import publishing
from safety.models import Blocklist, SafetyPolicy, SafetyRule
from safety.publishing import KEPT_S, REPLACED, heal, publish, publish_at_start, span_key
from safety.tasks import publish_policies

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def redis_of_the_process(store: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "connection", lambda: store)


def current(store: redis.Redis) -> dict[str, str]:
    found = cast(dict[bytes, bytes], store.hgetall(CURRENT))
    return {name.decode(): digest.decode() for name, digest in found.items()}


def published(store: redis.Redis, name: str) -> Policy:
    return Policy.decode(cast(bytes, store.hget(DEFINITIONS, current(store)[name])))


def mine(**facts: Any) -> SafetyPolicy:
    policy = SafetyPolicy.objects.create(name="mine", **facts)
    SafetyRule.objects.create(policy=policy, check_name="patterns", categories=["secrets"], action="enforce")
    return policy


def test_it_works(store: redis.Redis) -> None:
    assert heal(store)
    policies = built_in({})
    assert current(store) == {name: policy.digest for name, policy in policies.items()}, "there is none for off"
    assert {name: published(store, name) for name in policies} == policies
    assert not heal(store), "what is there is not written again"


def test_rules_are_in_order(store: redis.Redis) -> None:
    policy = mine()
    for position, action in ((9, "off"), (3, "flag")):
        SafetyRule.objects.create(
            policy=policy, check_name="patterns", categories=["secrets.jwt"], action=action, position=position
        )
    heal(store)
    assert [rule.action for rule in published(store, "mine").output] == ["enforce", "flag", "off"]


class TestBlocklists:
    def test_built_in_policies_have_all_that_are_active(self, store: redis.Redis) -> None:
        Blocklist.objects.create(name="rude", phrases="oaf\nlout")
        Blocklist.objects.create(name="old", phrases="knave", active=False)
        heal(store)
        ((name, digest),) = published(store, "standard").blocklists.items()
        assert name == "rude"
        assert json.loads(cast(bytes, store.hget(PHRASES, digest))) == ["lout", "oaf"]

    def test_others_have_those_chosen_or_named(self, store: redis.Redis) -> None:
        policy = mine()
        lists = [Blocklist.objects.create(name=name, phrases=name) for name in ("a", "b", "c")]
        policy.blocklists.add(lists[0])
        SafetyRule.objects.create(policy=policy, check_name="patterns", categories=["blocklist.b"])
        heal(store)
        assert published(store, "mine").blocklists.keys() == {"a", "b"}

    def test_a_rule_for_one_that_is_not_there_does_not_become_one_for_all(self, store: redis.Redis) -> None:
        policy = mine()
        Blocklist.objects.create(name="old", phrases="knave", active=False)
        SafetyRule.objects.create(policy=policy, check_name="patterns", categories=["blocklist.old"])
        SafetyRule.objects.create(policy=policy, check_name="patterns", categories=["blocklist.gone", "blocklist"])
        heal(store)
        assert [rule.categories for rule in published(store, "mine").output] == [("secrets",), ("blocklist",)]


class TestChanges:
    def test_each_is_published_once_it_is_committed(
        self, store: redis.Redis, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
    ) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            policy = mine()
            assert not store.exists(CURRENT)
        digests = [current(store)["mine"]]
        blocklist = Blocklist(name="rude", phrases="oaf")
        changes = (
            lambda: policy.rules.get().delete(),
            blocklist.save,
            lambda: policy.blocklists.add(blocklist),
            lambda: Blocklist(pk=blocklist.pk, name="rude", phrases="lout").save(),
            lambda: blocklist.delete(),
        )
        for change in changes:
            with django_capture_on_commit_callbacks(execute=True):
                change()
            digests.append(current(store)["mine"])
        changed = [before != after for before, after in pairwise(digests)]
        assert changed == [True, False, True, True, True], "nobody has the new list at first"

    def test_what_was_replaced_stays_for_those_that_began_with_it(
        self, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        policy = mine()
        heal(store)
        before = current(store)["mine"]
        policy.lookahead_tokens = 3
        policy.save()
        heal(store)
        assert store.hexists(DEFINITIONS, before)
        assert not heal(store)
        later = time.time() + KEPT_S + 1
        monkeypatch.setattr(time, "time", lambda: later)
        assert heal(store)
        assert not store.hexists(DEFINITIONS, before)
        assert store.hlen(DEFINITIONS) == 4
        assert not store.exists(REPLACED)

    def test_what_comes_back_is_kept(self, store: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
        policy = mine()
        for lookahead in (8, 3, 8):
            SafetyPolicy.objects.filter(pk=policy.pk).update(lookahead_tokens=lookahead)
            heal(store)
        later = time.time() + KEPT_S + 1
        monkeypatch.setattr(time, "time", lambda: later)
        heal(store)
        assert published(store, "mine").lookahead_tokens == 8

    def test_a_policy_that_is_deleted_is_current_no_more(self, store: redis.Redis) -> None:
        policy = mine()
        heal(store)
        policy.delete()
        heal(store)
        assert "mine" not in current(store)

    def test_an_older_state_never_replaces_a_newer_one(
        self, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        policy = mine()
        read, late = publishing.wanted, [True]

        def overtaken() -> publishing.Published:
            found = read()
            if store.exists(CURRENT) and late and late.pop():
                SafetyPolicy.objects.filter(pk=policy.pk).update(lookahead_tokens=3)
                with monkeypatch.context() as patch:
                    patch.setattr(publishing, "wanted", read)
                    heal(store)  # somebody else publishes the change
            return found

        heal(store)
        store.delete(SPAN_KEY)
        monkeypatch.setattr(publishing, "wanted", overtaken)
        heal(store)
        assert published(store, "mine").lookahead_tokens == 3


class TestHealing:
    @pytest.mark.parametrize("name", [CURRENT, DEFINITIONS, SPAN_KEY, PHRASES])
    def test_what_redis_lost_is_published_again(self, store: redis.Redis, name: str) -> None:
        Blocklist.objects.create(name="rude", phrases="oaf")
        heal(store)
        before = store.dump(name)
        store.delete(name)
        assert heal(store)
        assert store.dump(name) == before

    def test_so_does_the_task(self, store: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("safety.tasks.connection", lambda: store)
        publish_policies()
        assert "standard" in current(store)

    def test_a_policy_that_cannot_be_is_left_out(self, store: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
        mine()
        SafetyRule.objects.filter(policy__name="mine").update(threshold=7)
        heal(store)
        assert "mine" not in current(store)
        assert "standard" in current(store)
        assert "the safety policy mine is not to be had: threshold" in caplog.text

    def test_a_redis_that_is_away_fails_nobodys_change(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(
            publishing, "connection", lambda: redis.Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))
        )
        publish()
        assert "cannot be told" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_process_that_starts_publishes(store: redis.Redis) -> None:
    publish_at_start()
    assert "standard" in current(store)


def test_the_span_key_is_derived_from_the_secret_key(store: redis.Redis) -> None:
    heal(store)
    assert store.get(SPAN_KEY) == span_key().encode()
    with override_settings(SECRET_KEY="another"):
        assert store.get(SPAN_KEY) != span_key().encode()
        assert heal(store)
