from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.safety.patterns import CATEGORIES, PatternSet
from tests.inference.safety.patterns.samples import fill

TEXTS = Path(__file__).parent.parent / "texts" / "patterns.jsonl"
LEAST_PRECISION, LEAST_RECALL = 0.95, 0.9  # some of the texts are known to be missed

Counts = dict[str, tuple[int, int, int]]  # right, too many, missed


def labelled() -> Iterator[tuple[str, Counter[tuple[str, str]]]]:
    """Yield texts with the categories and spans to be found in them."""
    for line in TEXTS.read_text().splitlines():
        row = json.loads(line)
        yield fill(row["text"]), Counter((category, fill(span)) for category, span in row["finds"])


def quality(every: PatternSet) -> Counts:
    right, found, expected = Counter[str](), Counter[str](), Counter[str]()
    for text, finds in labelled():
        hits = Counter((hit.category, text[hit.start : hit.end]) for hit in every.find(text))
        for counts, spans in ((right, hits & finds), (found, hits), (expected, finds)):
            counts.update(category for category, _ in spans.elements())
    return {name: (right[name], found[name] - right[name], expected[name] - right[name]) for name in found | expected}


def test_it_works(every: PatternSet, capsys: pytest.CaptureFixture[str]) -> None:
    counts = quality(every)
    rows = {
        name: (right / (right + wrong or 1), right / (right + missed or 1))
        for name, (right, wrong, missed) in sorted(counts.items())
    }
    with capsys.disabled():
        print(f"\n{'category':36}{'texts':>6}{'precision':>11}{'recall':>8}")
        for name, (precision, recall) in rows.items():
            print(f"{name:36}{counts[name][0] + counts[name][2]:6}{precision:11.2f}{recall:8.2f}")
    assert all(precision >= LEAST_PRECISION and recall >= LEAST_RECALL for precision, recall in rows.values()), rows


def test_there_are_enough_of_them() -> None:
    texts = [*labelled()]
    assert len(texts) >= 300
    assert len({text for text, _ in texts}) == len(texts)
    assert {category for _, finds in texts for category, _ in finds} >= {*CATEGORIES}
    assert sum(not finds for _, finds in texts) >= 100


def test_no_key_is_written_out() -> None:
    """Code hosts refuse what looks like a key, made up or not."""
    written = TEXTS.read_text()
    assert not [hit for hit in PatternSet(["secrets"]).find(written) if hit.category != "secrets.private_key"]
    assert "BEGIN RSA PRIVATE KEY-----\\n" not in written
