"""The policies that a worker knows, while they are loaded, and when they cannot be had."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from inference.protocol.policies import Policy, Rule, digest_of, encode_phrases
from inference.safety import book
from inference.safety.book import NotReady, PolicyBook, UnknownPolicy
from inference.safety.classifiers.base import Classifier, ClassifierError


class Shelf:
    """A shelf that counts how often it is asked for definitions."""

    def __init__(self, *policies: Policy) -> None:
        self.definitions = {policy.digest: policy.encode().encode() for policy in policies}
        self.lists: dict[str, bytes] = {}
        self.num_asked = 0

    def definition(self, digest: str) -> bytes | None:
        self.num_asked += 1
        return self.definitions.get(digest)

    def phrases(self, digests: Sequence[str]) -> list[bytes | None]:
        return [self.lists.get(digest) for digest in digests]

    def span_key(self) -> bytes | None:
        return b"key"

    def current_policies(self) -> list[str]:
        return list(self.definitions)


class Mild:
    """Finds nothing."""

    categories: tuple[str, ...] = ("toxicity",)
    window = 60

    def scores(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        return [(0.0,) for _ in texts]


class Loader:
    """Opens classifiers when it is let."""

    def __init__(self, *, fails: bool = False) -> None:
        self.let, self.fails, self.threads = threading.Event(), fails, list[str]()

    def __call__(self, check: str, model: str) -> Classifier:
        self.threads.append(threading.current_thread().name)
        assert self.let.wait(10)
        if self.fails:
            raise ClassifierError("no such model in /srv/models")
        return Mild()


JUDGED = Policy(name="judged", output=(Rule(check="toxicity", action="enforce"),))
SECRETS = Policy(name="secrets", output=(Rule(check="patterns", action="enforce", categories=("secrets.jwt",)),))


def wait_for(policies: PolicyBook) -> None:
    assert policies._preparing is not None
    policies._preparing.join(10)


def test_it_works() -> None:
    loader = Loader()
    loader.let.set()
    policies = PolicyBook(Shelf(JUDGED, SECRETS), loader)
    policies.prepare()
    wait_for(policies)
    found = policies.checks_of(JUDGED.reference)
    assert found is not None
    assert found is policies.checks_of(JUDGED.reference)
    assert found.policy == JUDGED
    assert policies.checks_of("off") is None


def test_nobody_waits_long_for_a_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "PATIENCE_S", 0.01)
    loader = Loader()
    policies = PolicyBook(Shelf(JUDGED, SECRETS), loader)
    for _ in range(2):
        with pytest.raises(NotReady, match="judged"):
            policies.checks_of(JUDGED.reference)
    assert policies.checks_of(SECRETS.reference), "others are ready"
    loader.let.set()
    wait_for(policies)
    assert policies.checks_of(JUDGED.reference)
    assert threading.current_thread().name not in loader.threads[:1]


def test_one_that_loads_quickly_is_waited_for() -> None:
    loader = Loader()
    loader.let.set()
    assert PolicyBook(Shelf(JUDGED), loader).checks_of(JUDGED.reference)


def test_a_classifier_that_cannot_be_had_fails_closed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = Loader(fails=True)
    loader.let.set()
    policies = PolicyBook(Shelf(JUDGED), loader)
    for _ in range(3):
        with pytest.raises(UnknownPolicy, match="'judged': a classifier cannot be loaded") as refused:
            policies.checks_of(JUDGED.reference)
        policies.prepare()
    assert "/srv" not in str(refused.value)
    assert "/srv" in caplog.text
    assert len(loader.threads) == 1, "not again and again"
    monkeypatch.setattr(book, "RETRY_S", 0.0)
    loader.fails = False
    assert policies.checks_of(JUDGED.reference)


def test_what_cannot_be_read_does_not_end_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    text = encode_phrases(["oaf"])
    listed = Policy(name="listed", output=SECRETS.output, blocklists={"rude": digest_of(text)})
    shelf = Shelf(listed)
    shelf.lists[digest_of(text)] = b"["
    shelf.definitions["of-tomorrow"] = b'{"name": "x", "more": 1}'
    policies = PolicyBook(shelf, Loader())
    policies.prepare()
    asked = shelf.num_asked
    policies.prepare()
    assert shelf.num_asked == asked, "not each second"
    assert "more: not known here" in caplog.text
    with pytest.raises(UnknownPolicy, match="'listed'"):
        policies.checks_of(listed.reference)


def test_what_is_in_force_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MOST_KEPT", 1)
    shelf = Shelf(*(Policy(name=f"p{number}", output=SECRETS.output) for number in range(3)))
    policies = PolicyBook(shelf, Loader())
    policies.prepare()
    wait_for(policies)
    asked = shelf.num_asked
    policies.prepare()
    assert shelf.num_asked == asked
    shelf.definitions = {SECRETS.digest: SECRETS.encode().encode()}
    policies.prepare()
    wait_for(policies)
    assert len(policies._checks) == 2
