"""`python -m inference.safety.classifiers.convert_toxicity PATH`: read the package's pickles, write a plain file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from profanity_check import predict_prob
from profanity_check.profanity_check import model, vectorizer

from inference.safety.classifiers.toxicity import LinearModel

SAMPLES = (
    "",
    "You stupid idiot, shut up, I hate you, you moron.",
    "Kill the heat, and let the sauce rest; the sauce, I say.",
    "The patient's GRANDMOTHER died of cancer_1 in a hospital, a b c",
)


def convert() -> LinearModel:
    """Return what the package has learned."""
    machines = [(one.estimator, one.calibrators[0]) for one in model.calibrated_classifiers_]
    rarities = {word: float(vectorizer.idf_[at]) for word, at in vectorizer.vocabulary_.items()}
    # Calibration is 1 / (1 + exp(a * (w·x + c) + b)), and what x holds of a word grows with its rarity.
    slopes = {
        word: tuple(float(-platt.a_ * svm.coef_[0, at] * rarities[word]) for svm, platt in machines)
        for word, at in vectorizer.vocabulary_.items()
    }
    return LinearModel(
        rarities, slopes, tuple(float(-platt.a_ * svm.intercept_[0] - platt.b_) for svm, platt in machines)
    )


def verify(linear: LinearModel) -> None:
    """Raise `ValueError` if a later version of the package computes something else."""
    for text, expected in zip(SAMPLES, predict_prob(SAMPLES), strict=True):
        if abs(linear.score(text) - expected) > 1e-9:
            raise ValueError(f"{text!r} scores {linear.score(text)}, and {expected} in the package.")


def main(argv: list[str]) -> int:
    os.umask(0o077)  # as in `inference.models`
    try:
        linear = convert()
        verify(linear)
        linear.write(Path(argv[0]))
    except Exception as error:  # a model of another kind fails anywhere
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
