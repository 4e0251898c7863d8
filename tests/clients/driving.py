"""A browser page at the end of a pipe: see `node/drive.mjs`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from tests.clients.conftest import NODE_FOLDER, script_environment


class Browser:
    """Playwright's `Page`: each call names a method of it, and its arguments.

    `complaints` are what the console calls errors, violations of the content policy among them, and requests to other
    hosts, since the last time that it was asked.
    """

    def __init__(self, process: subprocess.Popen[str], origin: str) -> None:
        self._process, self.origin = process, origin

    @classmethod
    @contextmanager
    def start(cls, node: str, chromium: str, origin: str) -> Iterator[Self]:
        """Start a browser for the pages of one origin."""
        command = [node, str(NODE_FOLDER / "drive.mjs")]
        environment = script_environment(CHROMIUM=chromium, ORIGIN=origin)
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            yield cls(process, origin)
            assert process.stdin
            process.stdin.close()
            assert process.wait(20) == 0

    def __call__(self, method: str, *arguments: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["value"]
