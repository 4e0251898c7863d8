"""What the checks of most policies need, made ready before the first request waits for it."""

from __future__ import annotations

import logging

from inference.protocol.categories import PATTERN_GROUPS, TOXICITY
from inference.safety.classifiers import open_classifier
from inference.safety.classifiers.base import ClassifierError
from inference.safety.patterns import PatternSet

logger = logging.getLogger(__name__)


def warm_up(device: str) -> None:
    """Compile the patterns and load the bundled classifier: the first time on a machine, that takes some seconds."""
    PatternSet(PATTERN_GROUPS)
    try:
        open_classifier(TOXICITY, "", device)
    except ClassifierError as error:  # policies that need it are refused when they come
        logger.error("%s", error)
