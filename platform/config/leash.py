"""A script: `leash.py PARENT COMMAND …` becomes COMMAND, and gets SIGTERM when process PARENT dies, however it does.

The usual place for this is between fork and exec in the parent (`preexec_fn`), which is not safe there once the parent
has threads, and asyncio starts some to wait for children.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def leashed(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line that runs `command` on a leash that we hold."""
    return (sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command)


def main(parent: int, command: list[str]) -> None:
    """Become `command`; returns never."""
    if sys.platform == "linux":  # elsewhere only an orderly stop ends the children
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # it died before we could ask to be told
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores both, and that would outlive exec
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
