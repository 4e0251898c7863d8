"""The check `toxicity`: the linear model of `alt-profanity-check`, computed without the library.

The library takes milliseconds to vectorise a line, and 120 MB of scikit-learn. What it computes is small: words are
weighted by how rare they are, five support vector machines judge the weighted words, and the mean of their calibrated
verdicts is the score.
"""

from __future__ import annotations

import json
import logging
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from inference.caches import takes_files
from inference.safety.classifiers.base import ClassifierError
from inference.safety.windows import WINDOW

PACKAGE = "alt-profanity-check"
CONVERT_S = 120.0
_WORD = re.compile(r"\w\w+")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LinearModel:
    """What is learned: of each word its rarity, and its slope in each machine; of each machine its offset.

    Slopes and offsets are of calibrated logits: a machine's verdict is their sigmoid.
    """

    rarities: dict[str, float]
    slopes: dict[str, tuple[float, ...]]
    offsets: tuple[float, ...]

    def score(self, text: str) -> float:
        """Return how likely a text is toxic."""
        words = [word for word in _WORD.findall(text.lower()) if word in self.slopes]
        logits: Sequence[float] = self.offsets
        if words:
            counts: dict[str, int] = {}
            for word in words:
                counts[word] = counts.get(word, 0) + 1
            norm = math.sqrt(sum([(count * self.rarities[word]) ** 2 for word, count in counts.items()]))
            sums = map(sum, zip(*[self.slopes[word] for word in words], strict=True))
            logits = [total / norm + offset for total, offset in zip(sums, self.offsets, strict=True)]
        # As a tangent the sigmoid cannot overflow.
        return 0.5 + sum([math.tanh(logit / 2) for logit in logits]) / (2 * len(logits))

    def write(self, path: Path) -> None:
        """Write a file that takes no library to read; it appears when it is complete."""
        words = {word: (self.rarities[word], *slopes) for word, slopes in self.slopes.items()}
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            draft = Path(folder) / path.name
            draft.write_text(json.dumps({"offsets": self.offsets, "words": words}), encoding="utf-8")
            draft.replace(path)  # at once, since another worker may be looking for it

    @classmethod
    def read(cls, path: Path) -> LinearModel:
        body = json.loads(path.read_text(encoding="utf-8"))
        rarities = {word: row[0] for word, row in body["words"].items()}
        slopes = {word: tuple(row[1:]) for word, row in body["words"].items()}
        return cls(rarities, slopes, tuple(body["offsets"]))


class Toxicity:
    """Has one class, and knows English."""

    categories: tuple[str, ...] = ("toxicity",)
    window = WINDOW

    def __init__(self, model: LinearModel) -> None:
        self._model = model

    @classmethod
    def load(cls, folder: Path) -> Toxicity:
        """Read the model from `folder`, brought there once, in some seconds, from the package's pickles."""
        path = folder / f"toxicity-{version(PACKAGE)}.json"
        if path.exists():
            try:
                return cls(LinearModel.read(path))
            except (ValueError, KeyError) as error:  # the machine died before all of it was on the disk
                logger.warning("%s is made again: %s", path.name, error)
        with tempfile.TemporaryDirectory() as elsewhere:
            if not takes_files(folder):
                logger.warning("%s takes no files: the model of %s is made at each start", folder, PACKAGE)
                path = Path(elsewhere) / path.name
            _convert(path)
            return cls(LinearModel.read(path))

    def scores(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        return [(self._model.score(text),) for text in texts]


def _convert(path: Path) -> None:
    """Unpickle in a process of its own, whose libraries go with it."""
    command = [sys.executable, "-m", "inference.safety.classifiers.convert_toxicity", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CONVERT_S)
    except subprocess.TimeoutExpired:
        raise ClassifierError(f"Reading the model of {PACKAGE} took longer than {CONVERT_S:.0f} s.") from None
    if done.returncode:
        *_, why = ("it was ended", *done.stderr.strip().splitlines())
        raise ClassifierError(
            f"The model of {PACKAGE} cannot be read: {why} Install the versions that constraints.txt names."
        )
