"""The policies that a worker knows: each is compiled once, by its digest, and never changes."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from inference.faults import fault_of
from inference.protocol.policies import OFF, Policy, PolicyError
from inference.safety.checks import Checks, OpenClassifier, classifiers_of
from inference.safety.classifiers.base import ClassifierError

MOST_KEPT = 64  # beside those in force
PATIENCE_S = 2.0  # for a classifier that is being loaded; whatever the worker runs waits as well
RETRY_S = 60.0  # a policy that could not be had is not asked for again so soon

logger = logging.getLogger(__name__)


class UnknownPolicy(ValueError):
    """Raised when a request names a policy that this worker cannot keep to: unjudged text must not leave."""


class NotReady(Exception):
    """Raised while what a request's policy takes is being loaded: it has to wait, and others need not."""


class Shelf(Protocol):
    """Where policies lie."""

    def definition(self, digest: str) -> bytes | None:
        """Return the encoded policy of a digest."""

    def phrases(self, digests: Sequence[str]) -> list[bytes | None]:
        """Return blocklists, encoded, by their digests."""

    def span_key(self) -> bytes | None:
        """Return what digests of findings are keyed with."""

    def current_policies(self) -> list[str]:
        """Return the digests of the policies that new requests have."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a policy is compiled from."""

    policy: Policy
    phrases: dict[str, list[str]]
    span_key: bytes


class PolicyBook:
    """Compiles policies: those in force beforehand, on a thread of its own, others when they are asked for.

    Classifiers take long to load, so that only the thread does it.
    """

    def __init__(
        self, shelf: Shelf, open_classifier: OpenClassifier, stop_reason: Literal["safety", "refusal"] = "safety"
    ) -> None:
        self._shelf, self._open, self._stop_reason = shelf, open_classifier, stop_reason
        self._checks: dict[str, Checks] = {}  # the oldest first
        self._current: frozenset[str] = frozenset()
        self._loaded: set[tuple[str, str]] = set()  # classifiers
        self._failed: dict[str, float] = {}  # digest -> when it could not be had
        self._lock = threading.Lock()  # one compiles at a time
        self._preparing: threading.Thread | None = None
        self._waited_for: threading.Thread | None = None

    def checks_of(self, reference: str) -> Checks | None:
        """Return the checks of a request's policy, None where nothing is checked; raise `UnknownPolicy`, `NotReady`."""
        if reference == OFF:
            return None
        name, _, digest = reference.partition("@")
        try:
            return self._checks.get(digest) or self._checks_of(digest)
        except ValueError as error:  # PolicyError is one, and so is an unknown category
            raise UnknownPolicy(f"This worker cannot keep to the safety policy {name!r}: {error}") from None

    def prepare(self) -> None:
        """Compile in the background what is in force and not known yet."""
        if self._is_preparing:
            return
        self._current = frozenset(self._shelf.current_policies())
        sources: dict[str, Source] = {}
        for digest in self._current - self._checks.keys():
            if self._has_failed(digest):
                continue
            try:
                sources[digest] = self._fetch(digest)
            except ValueError as error:
                self._fail(digest, digest, error)
        if sources:
            self._start(sources)

    @property
    def _is_preparing(self) -> bool:
        return self._preparing is not None and self._preparing.is_alive()

    def _checks_of(self, digest: str) -> Checks:
        source = self._fetch(digest)
        if not self._loaded.issuperset(classifiers_of(source.policy)):
            if self._has_failed(digest):
                raise PolicyError("a classifier cannot be loaded.")
            self._wait_for(digest, source)
        return self._compiled(digest, source)

    def _wait_for(self, digest: str, source: Source) -> None:
        """Have the classifiers of a policy loaded; raise `NotReady` where that takes long."""
        if not self._is_preparing:
            self._start({digest: source})
        if self._preparing is not None and self._preparing is not self._waited_for:
            self._waited_for = self._preparing
            self._preparing.join(PATIENCE_S)
        if self._has_failed(digest):
            raise PolicyError("a classifier cannot be loaded.")
        if not self._loaded.issuperset(classifiers_of(source.policy)):
            raise NotReady(f"the safety policy {source.policy.name} is being made ready")

    def _fetch(self, digest: str) -> Source:
        """Get a policy from the shelf: on the caller's thread, since the shelf is for one thread."""
        blob, span_key = self._shelf.definition(digest), self._shelf.span_key()
        if blob is None or span_key is None:
            raise PolicyError("it cannot be found.")
        policy = Policy.decode(blob)
        lists = self._shelf.phrases(list(policy.blocklists.values())) if policy.blocklists else []
        if None in lists:
            raise PolicyError("a blocklist cannot be found.")
        phrases = {name: json.loads(found or b"[]") for name, found in zip(policy.blocklists, lists, strict=True)}
        return Source(policy, phrases, span_key)

    def _start(self, sources: dict[str, Source]) -> None:
        self._preparing = threading.Thread(target=self._prepare_all, args=(sources,), daemon=True)
        self._preparing.start()

    def _prepare_all(self, sources: dict[str, Source]) -> None:
        for digest, source in sources.items():
            try:
                for check, model in classifiers_of(source.policy):
                    self._open(check, model)
                    self._loaded.add((check, model))
                self._compiled(digest, source)
            except Exception as error:
                self._fail(digest, source.policy.name, error)

    def _fail(self, digest: str, name: str, error: Exception) -> None:
        self._failed[digest] = time.monotonic()
        told = error if isinstance(error, ValueError | ClassifierError) else fault_of(error)
        logger.error("the safety policy %s cannot be used: %s", name, told)

    def _has_failed(self, digest: str) -> bool:
        """Whether it could not be had a short while ago."""
        return time.monotonic() - self._failed.get(digest, float("-inf")) < RETRY_S

    def _compiled(self, digest: str, source: Source) -> Checks:
        with self._lock:
            if digest not in self._checks:
                checks = Checks.of(source.policy, source.phrases, source.span_key, self._open)
                self._checks[digest] = replace(checks, stop_reason=self._stop_reason)
            checks = self._checks[digest]
            replaced = [other for other in self._checks if other != digest and other not in self._current]
            for other in replaced[: max(0, len(replaced) - MOST_KEPT)]:
                del self._checks[other]
            return checks
