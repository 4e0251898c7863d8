"""The series that are there before anything was counted, at 0: an increase is seen only from one that was there.

That is done where all is told, and so it holds for what any process counts. Names that operators give (those of their
blocklists, of the classes of their models) are not known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import get_args

from common.errors import ApiError
from inference.protocol.categories import NATIONAL_IDS, PATTERNS, TOXICITY
from inference.protocol.metrics import ANSWERS, ERRORS, LIMITED, METRICS, QUOTA_CHECKS, SAFETY_TRIGGERS, TOKENS
from inference.protocol.policies import CHECKS, FAILED
from quotas.standings import LIMITS, Level
from streaming.verdicts import SHUTDOWN

Labels = tuple[str, ...]


def _errors(kind: type[ApiError] = ApiError) -> list[type[ApiError]]:
    return [kind, *(error for each in kind.__subclasses__() for error in _errors(each))]


_BAD = dict.fromkeys((*(error.kind for error in _errors() if error.status >= 500), SHUTDOWN))
_TRIGGERS = (("patterns", (*PATTERNS, *NATIONAL_IDS)), ("toxicity", (TOXICITY,)))

_CLOSED: Mapping[str, Iterable[Labels]] = {
    ANSWERS.name: [("good", ""), ("left_out", ""), *(("bad", kind) for kind in _BAD)],
    ERRORS.name: [(str(error.status), error.kind) for error in _errors()],
    LIMITED.name: list(product(get_args(Level), LIMITS, ("enforced", "shadow"))),
    QUOTA_CHECKS.name: [("ok",), ("behind",)],
    SAFETY_TRIGGERS.name: [
        *((check, FAILED, "enforce") for check in CHECKS),
        *((check, *rest) for check, found in _TRIGGERS for rest in product(found, ("enforce", "flag"))),
    ],
}


def known_series(models: Iterable[str]) -> Mapping[str, Iterable[Labels]]:
    """Return the labels that each metric has from the start, those of the models that ever had a worker among them."""
    names = list(models)
    of_models = {metric.name: [(name,) for name in names] for metric in METRICS if metric.labels == ("model",)}
    return {**_CLOSED, **of_models, TOKENS.name: list(product(names, ("input", "cached", "output")))}
