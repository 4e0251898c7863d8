"""The check of a prompt, before the model sees it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from inference.safety.checks import Checks
from inference.safety.findings import Finding
from inference.safety.judge import Ask
from inference.safety.passage import Passage


class PromptGate:
    """The caller's own texts under a policy's checks. When `asks` are judged, `findings` tells what they have found."""

    def __init__(self, checks: Checks, texts: Sequence[str], spent_ms: defaultdict[str, float]) -> None:
        self._passages: list[Passage] = []
        start = 0
        for text in texts if checks.prompt.names else ():
            passage = Passage(checks.prompt, start=start, whole=True, spent=spent_ms)
            passage.push(text)
            passage.close()
            self._passages.append(passage)
            start += len(text)

    def asks(self) -> list[Ask]:
        """Return what has to be judged before the model may begin."""
        return [ask for passage in self._passages for ask in passage.asks()]

    def findings(self) -> list[Finding]:
        """Return what was found, each once."""
        return [finding for passage in self._passages for finding in passage.take_found()]
