"""Looking for secrets, however they are written, and at everything that a Redis is asked."""

from __future__ import annotations

import base64
import re
import socket
import threading
from pathlib import Path
from urllib.parse import quote

from tokenizers import Tokenizer


class Monitor:
    """Everything that a Redis is asked to do, as it says itself."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._socket.sendall(b"MONITOR\r\n")
        self._seen = bytearray()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while chunk := self._socket.recv(1 << 20):
            self._seen += chunk

    def lines(self) -> list[str]:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        return self._seen.decode(errors="replace").splitlines()


def spellings(secret: str) -> set[bytes]:
    """How a text may be written."""
    raw = secret.encode()
    in_base64 = {
        base64.b64encode(b"\0" * before + raw)[(before * 4 + 2) // 3 :].rstrip(b"=")[:-1] for before in range(3)
    }
    return {raw, raw.hex().encode(), quote(secret, safe="").encode(), *in_base64}


class Wanted:
    """All secrets, by how they may be written."""

    def __init__(self, secrets: dict[str, str]) -> None:
        self._names = {spelling: name for name, secret in secrets.items() for spelling in spellings(secret)}
        self._any = re.compile(
            b"|".join(sorted(map(re.escape, self._names), key=lambda spelling: -len(bytes(spelling)))),
            re.IGNORECASE,
        )

    def find(self, text: str | bytes) -> set[str]:
        """Return the names of the secrets in a text."""
        raw = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        lower = {spelling.lower(): name for spelling, name in self._names.items()}
        return {lower[found.lower()] for found in self._any.findall(raw)}

    def check(self, text: str | bytes, where: str) -> None:
        for line in text.split(b"\n") if isinstance(text, bytes) else text.split("\n"):
            assert not self.find(line), f"{where}: {self.find(line)} in {line[:2000]!r}"


def ids_of(word: str, model_folder: Path, between: str) -> str:
    """A word that is said again and again, as token ids."""
    tokenizer = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    return between.join(map(str, tokenizer.encode(f" {word}" * 4, add_special_tokens=False).ids))
