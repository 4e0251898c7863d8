"""Putting texts before classifiers: all that messages ask for in one step, in one call for each classifier."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite

from inference.faults import fault_of
from inference.safety.classifiers.base import Classifier, ClassifierError

logger = logging.getLogger(__name__)

Scores = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A text for a classifier. `heed` gets its scores, None where the classifier failed, and the time it took in ms."""

    classifier: Classifier
    text: str
    heed: Callable[[Scores | None, float], None]


def judge(asks: Iterable[Ask]) -> None:
    """Have texts judged, the same text once."""
    by_classifier: defaultdict[int, list[Ask]] = defaultdict(list)
    for ask in asks:
        by_classifier[id(ask.classifier)].append(ask)
    for group in by_classifier.values():
        _judge(group)


def _judge(asks: list[Ask]) -> None:
    classifier = asks[0].classifier
    texts = list(dict.fromkeys(ask.text for ask in asks))
    begun = time.perf_counter()
    scores: dict[str, Scores | None]
    try:
        found = classifier.scores(texts)
        if not all(len(each) == len(classifier.categories) and all(map(isfinite, each)) for each in found):
            raise ClassifierError("expected a finite score of each category")
        scores = dict(zip(texts, found, strict=True))
    except Exception as error:  # whatever it is, the texts were not judged: they must not leave
        logger.error("a classifier failed: %s", fault_of(error))
        scores = dict.fromkeys(texts)
    share_ms = (time.perf_counter() - begun) * 1000 / len(asks)
    for ask in asks:
        ask.heed(scores[ask.text], share_ms)
