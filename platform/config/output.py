"""One terminal for many processes: every line says whose it is."""

from __future__ import annotations

import asyncio
import os
import zlib
from typing import TextIO

_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
_LONGEST_LINE = 64 * 1024


class Output:
    """Writes lines as `name | text`, coloured where a person looks on."""

    def __init__(self, stream: TextIO, *, width: int = 9) -> None:
        self._stream = stream
        self._width = width
        self._coloured = stream.isatty() and "NO_COLOR" not in os.environ

    def line(self, name: str, text: str) -> None:
        """Write one line."""
        prefix = f"{name:<{self._width}} |"
        if self._coloured:
            prefix = f"\x1b[{_COLOURS[zlib.crc32(name.encode()) % len(_COLOURS)]}m{prefix}\x1b[0m"
        self.bare(f"{prefix} {text}")

    def bare(self, text: str) -> None:
        """Write what is to be copied, without a prefix."""
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads us any more: no reason to let the children suffer


class LineReader(asyncio.Protocol):
    """Cuts what a child writes into lines for the output."""

    def __init__(self, name: str, output: Output) -> None:
        self.ended = asyncio.Event()
        self._name = name
        self._output = output
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._write(line)
        if len(self._rest) > _LONGEST_LINE:
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._flush()
        self.ended.set()

    def _flush(self) -> None:
        if self._rest:
            self._write(self._rest)
            self._rest = b""

    def _write(self, line: bytes) -> None:
        self._output.line(self._name, line.decode(errors="replace").rstrip("\r"))
