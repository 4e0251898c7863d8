"""What is counted by the minute, for each model and organisation: sketches of times, and sums.

Each process counts for itself and adds to one hash in Redis for each minute, from which the platform makes its rows.
There, a field is `model|organization` (the latter has no bar), its value JSON: kind -> part -> sum. Either name may be
empty: a request that was refused may be nobody's, and for no model.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from inference.protocol import keys, scripts
from inference.protocol.outcomes import CANCEL_REASONS, Outcome
from inference.protocol.reports import Settlement
from inference.protocol.sketches import indexes_of

MINUTE_S = 60
LATE_S = 3600  # what comes later than this after its minute is left out
WAITING_S = 2 * 24 * 3600  # that counts wait for the database
STORED_S = LATE_S + 600  # that they are kept once they are there: others may be added until they are late
ADDED_TTL_S = 24 * 3600  # how long a process may take to learn that its counts arrived
AT_ONCE = 200  # fields in one script: some ms of Redis' time

# Sketches of seconds, by bucket.
TTFT, TPOT, TBT = "ttft", "tpot", "tbt"
# Sums: of answers as clients felt them, of messages by outcome, of safety triggers, of tokens, and of stages: how many
# requests had one, and the time it took them in µs.
ANSWERS, OUTCOMES, TRIGGERS, TOKENS = "answers", "outcomes", "triggers", "tokens"
STAGES, STAGES_US = "stages", "stages_us"

GOOD, LEFT_OUT, BAD = "good", "left_out", "bad:"  # parts of ANSWERS; the error's type follows `bad:`
OUTPUT = "output"  # the part of TOKENS

Call = tuple[str, tuple[str, ...], tuple[str | int, ...]]  # script, keys, arguments
_Place = tuple[int, str, str]  # minute, model, organisation

logger = logging.getLogger(__name__)


def verdict_on(outcome: Outcome) -> str:
    """Return the verdict on a message that nobody holds a connection for, by how it ended."""
    if outcome in CANCEL_REASONS:
        return LEFT_OUT
    return f"{BAD}{kind}" if (kind := _KINDS.get(outcome)) else GOOD


# What clients are told of those that failed.
_KINDS: dict[Outcome, str] = {
    "timeout": "timeout_error", "error": "api_error", "oom": "api_error", "worker_lost": "api_error",
}  # fmt: skip


class Counts:
    """What one process counted of one model and organisation in one minute."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        self.sums: dict[str, dict[str | int, int]] = {}

    def add(self, kind: str, part: str, by: int = 1) -> None:
        """Add to a sum."""
        parts = self.sums.setdefault(kind, {})
        parts[part] = parts.get(part, 0) + by

    def observe(self, kind: str, seconds: Iterable[float]) -> None:
        """Add measurements to a sketch."""
        parts = self.sums.setdefault(kind, {})
        get = parts.get
        for index in indexes_of(seconds):
            parts[index] = get(index, 0) + 1

    def stage(self, name: str, ms: float) -> None:
        """Add the time that a request spent in a stage."""
        self.add(STAGES, name)
        self.add(STAGES_US, name, round(ms * 1000))

    def settled(self, settlement: Settlement) -> None:
        """Add a message that has ended."""
        self.add(OUTCOMES, settlement.outcome)
        if settlement.detached:
            self.add(ANSWERS, verdict_on(settlement.outcome))
        if settlement.output_tokens:
            self.add(TOKENS, OUTPUT, settlement.output_tokens)


class MinuteTally:
    """Counts of one process that are not in Redis yet. They go there in numbered batches, each of them once."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._counts: dict[_Place, Counts] = {}
        self._minutes: set[int] = set()
        self._batch: dict[_Place, Counts] = {}
        self._number = time.time_ns() // 1000  # higher than any of a process that had this one's id before

    def of(self, model: str, organization: str, *, at: float | None = None) -> Counts:
        """Return the counts of now, or of another time within the last hour: one before that is taken for its begin."""
        now = int(self._clock()) // MINUTE_S
        earliest = now - LATE_S // MINUTE_S + 1
        minute = now if at is None else min(now, max(earliest, int(at) // MINUTE_S))
        if minute not in self._minutes:
            self._forget_before(earliest)
            self._minutes.add(minute)
        return self._counts.setdefault((minute, model, organization), Counts())

    def call(self, process: str) -> Call | None:
        """Return the call that adds counts to those in Redis, the same until `added`; None where there are none.

        There may be more for another one.
        """
        if not self._batch:
            self._batch = dict(islice(self._counts.items(), AT_ONCE))
            for place in self._batch:
                del self._counts[place]
            self._minutes = {minute for minute, *_ in self._counts}
            self._number += 1
        if not self._batch:
            return None
        minutes = sorted({minute for minute, *_ in self._batch})
        names = (keys.MINUTES_CHANGED, keys.minutes_added(process), *map(keys.minute, minutes))
        head = (self._number, ADDED_TTL_S, LATE_S, WAITING_S)
        return scripts.ADD_MINUTES, names, (*head, *self._arguments(minutes))

    def added(self, num_late: int) -> None:
        """Note that Redis has the batch, but for what it said came too late."""
        if num_late:
            logger.warning("counts of %d models and organisations came to Redis over an hour late: left out", num_late)
        self._batch = {}

    def _arguments(self, minutes: list[int]) -> Iterator[str | int]:
        for (minute, model, organization), counts in self._batch.items():
            yield minutes.index(minute) + 1
            yield f"{model}|{organization}"
            yield json.dumps(counts.sums, separators=(",", ":"))

    def _forget_before(self, earliest: int) -> None:
        """Let go of what Redis would not take any more, so that a process whose Redis is away stays small."""
        late = [place for place in self._counts if place[0] < earliest]
        for place in late:
            del self._counts[place]
        self._minutes = {minute for minute in self._minutes if minute >= earliest}
        if late:
            gone = len({minute for minute, *_ in late})
            logger.warning("Redis has been away for over an hour: the counts of %d minutes are lost", gone)


def read(fields: Mapping[bytes, bytes]) -> Iterator[tuple[str, str, bytes]]:
    """Give what a minute's hash has: model, organisation, the sums as JSON."""
    for name, sums in fields.items():
        model, _, organization = name.decode().rpartition("|")
        yield model, organization, sums
