"""One text under checks while it grows: a block of text, a tool call's input, a prompt."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter

from inference.faults import fault_of
from inference.safety.checks import Judging, SideChecks
from inference.safety.findings import Finding, action_of, decide, failure
from inference.safety.judge import Ask, Scores
from inference.safety.patterns import Hit, PatternScan
from inference.safety.unescape import Unescaper
from inference.safety.windows import covering, window, window_ends

logger = logging.getLogger(__name__)


class Passage:
    """Counts what was written from `start` on; what checks read can be shorter, where escapes are undone in it.

    The first span that a pattern has enforced ends it: nothing after that is read.
    """

    def __init__(
        self,
        checks: SideChecks,
        *,
        start: int = 0,
        escaped: bool = False,
        whole: bool = False,
        spent: defaultdict[str, float],
    ) -> None:
        """What comes `whole` is not judged word by word. `spent` takes the time of each check, in ms."""
        self.start = self.end = start
        self._found: list[Finding] = []
        self._checks, self._spent, self._whole = checks, spent, whole
        self._scan = checks.patterns.scan() if checks.patterns else None
        self._unescaper = Unescaper() if escaped else None
        self._places: list[int] = []  # where each character was written, where escapes are undone
        self._text = ""
        self._asked_to = 0  # the end of the last window
        self._asks: list[Ask] = []
        self._num_asked = 0  # windows that are not judged yet
        self._judged_to = start
        self._best: dict[Judging, Finding] = {}  # of those that only flag, and that once
        self._closed = False

    @property
    def open_from(self) -> int:
        """Where what is written may still turn out to be part of a pattern."""
        if self._closed or self._scan is None:
            return self.end
        return self._place(self._scan.open_start)

    @property
    def judged_to(self) -> int:
        """How far the classifiers that enforce have come."""
        return self._judged_to if self._checks.enforcing else self.end

    @property
    def over(self) -> bool:
        """Whether it has ended and is judged to its end."""
        return self._closed and not self._num_asked and not self._asks

    def push(self, written: str) -> None:
        """Take more of what was written."""
        if self._closed:
            return
        self.end += len(written)
        self._add(written if self._unescaper is None else self._unescaped(self._unescaper.push(written)))

    def close(self) -> None:
        """Note that it has ended."""
        if self._closed:
            return
        if self._unescaper is not None:
            self._add(self._unescaped(self._unescaper.flush()))
        if self._scan is not None and not self._closed:
            self._look(self._scan, None)
        if not self._closed:
            self._end()

    def trust(self) -> None:
        """Take what was pushed for judged: an earlier attempt has let it out. What only flags is asked all the same."""
        passed = {judging.classifier for judging in self._checks.enforcing if not judging.flags}
        self._asks = [ask for ask in self._asks if ask.classifier not in passed]
        self._judged_to = self._place(self._asked_to)

    def asks(self) -> list[Ask]:
        """Return what is to be judged now."""
        asks, self._asks = self._asks, []
        self._num_asked += len(asks)
        return asks

    def _add(self, text: str) -> None:
        self._text += text
        if self._scan is not None and text:
            self._look(self._scan, text)
        if not self._closed:
            self._ask()

    def _end(self) -> None:
        self._closed = True
        self._ask()
        for judging in self._checks.judgings:
            if self._whole or not judging.enforces:
                for begin, end in covering(self._text, judging.classifier.window):
                    self._ask_one(judging, begin, end)

    def _unescaped(self, known: Sequence[tuple[str, int]]) -> str:
        at = self._places[-1] if self._places else self.start
        for _, length in known:
            at += length
            self._places.append(at)
        return "".join(character for character, _ in known)

    def _place(self, position: int) -> int:
        """Return where a character was written."""
        if self._unescaper is None:
            return self.start + position
        return self._places[position - 1] if position else self.start

    def _look(self, scan: PatternScan, text: str | None) -> None:
        """Look for patterns in more of the text, None for its end."""
        begun, open_start = perf_counter(), scan.open_start
        try:
            hits = scan.flush() if text is None else scan.push(text)
        except Exception as error:  # whatever it is, what was not looked at must not leave
            logger.error("patterns cannot be looked for: %s", fault_of(error))
            self._found.append(failure("patterns", self._place(open_start)))
            self._end_before(open_start)
            return
        finally:
            self._spent["patterns"] += (perf_counter() - begun) * 1000
        for hit in hits:
            self._note(hit)
            if self._closed:
                return

    def _note(self, hit: Hit) -> None:
        action = action_of(self._checks.pattern_rules, hit.category, hit.score)
        if action is None:
            return
        start, text = self._place(hit.start), self._text[hit.start : hit.end]
        self._found.append(
            Finding(check="patterns", category=hit.category, action=action, score=hit.score, start=start, text=text)
        )
        if action == "enforce":
            self._end_before(hit.start)

    def _end_before(self, position: int) -> None:
        self._text = self._text[:position]  # it has to be judged all the same
        self._end()

    def _ask(self) -> None:
        """Ask for the windows that have ended since the last time."""
        judgings = self._checks.enforcing
        if not judgings or self._whole:
            return
        for end in window_ends(self._text, self._asked_to, over=self._closed):
            for judging in judgings:
                self._ask_one(judging, window(self._text, end, judging.classifier.window), end)
            self._asked_to = end

    def _ask_one(self, judging: Judging, begin: int, end: int) -> None:
        heed = partial(self._heed, judging, begin, end)
        self._asks.append(Ask(classifier=judging.classifier, text=self._text[begin:end], heed=heed))

    def _heed(self, judging: Judging, begin: int, end: int, scores: Scores | None, spent_ms: float) -> None:
        self._num_asked -= 1
        self._spent[judging.check] += spent_ms
        if scores is None:
            self._found.append(failure(judging.check, self._place(begin)))
            return
        if judging.enforces:
            self._judged_to = max(self._judged_to, self._place(end))
        decided = decide(judging.rules, zip(judging.classifier.categories, scores, strict=True))
        if decided is None:
            return
        category, score, action = decided
        finding = Finding(
            check=judging.check, category=category, action=action, score=score,
            start=self._place(begin), text=self._text[begin:end],
        )  # fmt: skip
        if action == "enforce":
            self._found.append(finding)
        elif judging not in self._best or score > self._best[judging].score:
            self._best[judging] = finding

    def take_found(self) -> Iterator[Finding]:
        """Return findings, each once: those that only flag a whole text when it is over."""
        yield from self._found
        self._found = []
        if self.over:
            yield from self._best.values()
            self._best = {}
