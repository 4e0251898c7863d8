"""Classifiers: what judges a text by what it learned, not by a pattern."""

from __future__ import annotations

from functools import cache

from inference.caches import cache_folder
from inference.protocol.settings import load
from inference.safety.classifiers.base import Classifier, ClassifierError

FOLDER = ".classifiers"  # beside the kernels


@cache
def open_classifier(check: str, model: str, device: str) -> Classifier:
    """Return the classifier of a check, loaded once per process; raise `ClassifierError` if it cannot be had.

    `model` is a transformer's folder or name, `device` as in `SLUICE_DEVICE`.
    """
    settings = load()
    if check == "toxicity":
        from inference.safety.classifiers.toxicity import Toxicity  # a check loads only what it needs

        return Toxicity.load(cache_folder(settings, FOLDER))
    if check == "transformer":
        from inference.safety.classifiers.transformer import Transformer

        return Transformer.load(settings.models_path, model, device)
    raise ClassifierError(f"There is no classifier {check!r}: expected toxicity or transformer.")
