"""The log of one message, as a generation writes it, over a tokenizer of which each byte is a token."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from inference.claims import Claim, Taken
from inference.detokenizer import Vocabulary
from inference.engines.base import StepOutput
from inference.generation import Generation
from inference.protocol.events import MessageEvents
from inference.protocol.progress import encode_ids, progress_of
from inference.safety.checks import Checks
from inference.safety.judge import judge
from tests.inference.tools import a_request


def byte_tokenizer() -> Tokenizer:
    """Return a tokenizer with a token for each byte, and no more: token ids are easy to read in a test."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


START = MessageEvents().message_start(message_id="msg_1", model="m", input_tokens=3, retry_ms=2000)


def feed(generation: Generation, output: StepOutput) -> None:
    """Give a message what a step gave, as its worker does."""
    generation.push(output)
    go_on(generation)


def go_on(generation: Generation) -> None:
    """Have judged what a message asks for."""
    judge(generation.asks())
    generation.proceed()


class Log:
    """Collects what a generation writes, as the log would."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
        self.tokenizer, self.vocabulary = tokenizer, vocabulary
        self.entries: list[tuple[bytes, dict[bytes, bytes]]] = []

    def ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text).ids)

    def generation(self, attempt: int = 1, checks: Checks | None = None, **changes: Any) -> Generation:
        progress = progress_of([(b"1-0", {b"f": START}), *self.entries])
        claim = Claim(id="msg_1", attempt=attempt, pen=attempt, age_ms=9.0, payload=b"")
        taken = Taken(progress=progress, waited_ms=5.0)
        generation = Generation(claim, a_request(**changes), taken, self.vocabulary, checks)
        go_on(generation)
        return generation

    def drain(self, generation: Generation) -> None:
        batch = generation.take()
        pairs = zip(batch.frames, batch.token_ids, strict=True)
        for number, (frame, token_ids) in enumerate(pairs, batch.first_id):
            self.entries.append((b"%d-0" % number, {b"f": frame, b"t": encode_ids(token_ids).encode()}))

    def say(self, generation: Generation, text: str, **output: Any) -> None:
        """Give tokens one step at a time; what `output` says comes with the last."""
        for i, token_id in enumerate(token_ids := self.ids(text)):
            last = i == len(token_ids) - 1
            if generation.outcome is None:
                feed(generation, StepOutput("msg_1", (token_id,), **(output if last else {})))
            self.drain(generation)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(fields[b"f"].rpartition(b"data: ")[2]) for _, fields in self.entries]

    @property
    def text(self) -> str:
        return "".join(e["delta"]["text"] for e in self.events if e["type"] == "content_block_delta")

    @property
    def kinds(self) -> list[str]:
        return [e["type"].removeprefix("content_block_") for e in self.events if e["type"] != "content_block_delta"]
