"""The labelled texts of the check `toxicity`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parents[1] / "texts" / "toxicity.jsonl"


@dataclass(frozen=True)
class Labelled:
    text: str
    topic: str
    toxic: bool


ALL = [
    Labelled(row["text"], row["topic"], row["label"] == "toxic")
    for row in map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
]
SHORT = [row for row in ALL if not row.topic.startswith("long.")]
LONG = [row for row in ALL if row.topic.startswith("long.")]  # all of them harmless
