"""The installation: Python, packages, settings, the secret key."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from django.conf import settings
from django.core import checks
from packaging.requirements import Requirement

from console.doctor.findings import Finding, fail, ok, warn
from console.doctor.folders import others_may
from inference.protocol.settings import Settings

OLDEST_PYTHON = (3, 11)
SHORTEST_SECRET = 50  # what Django asks for
INSTALL = "Run: pip install -c constraints.txt -e ."


def python() -> Iterator[Finding]:
    """Look at the interpreter."""
    have = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        yield fail("python", f"{have} is too old.", f"Use Python {'.'.join(map(str, OLDEST_PYTHON))} or newer.")
    else:
        yield ok("python", have)


def packages(required: Iterable[str] | None = None) -> Iterator[Finding]:
    """Look for what Sluice requires, and for what its settings ask for besides."""
    needed = [Requirement(text) for text in (requires("sluice") or [] if required is None else required)]
    extras = {"", "postgres"} if settings.SLUICE.database_url else {""}
    needed = [one for one in needed if not one.marker or any(one.marker.evaluate({"extra": e}) for e in extras)]
    faults = [fault for one in needed if (fault := _fault(one))]
    if settings.SLUICE.engine == "vllm" and find_spec("vllm") is None:
        yield fail("packages", "SLUICE_ENGINE=vllm, and there is no vLLM.", "Run: pip install 'sluice[vllm]'")
    for fault in faults:
        yield fail("packages", fault, INSTALL)
    if not faults:
        yield ok("packages", f"all {len(needed)} that are required are there")


def _fault(needed: Requirement) -> str:
    try:
        have = version(needed.name)
    except PackageNotFoundError:
        return f"{needed.name} is missing."
    if needed.specifier.contains(have, prereleases=True):
        return ""
    return f"{needed.name} is {have}, not {needed.specifier}."


def configuration() -> Iterator[Finding]:
    """Look at the settings, by Django's checks and our own."""
    found = [message for message in checks.run_checks() if not message.is_silenced()]
    for message in found:
        make = fail if message.is_serious() else warn
        yield make("settings", message.msg, message.hint or f"Django calls it {message.id}.")
    if settings.DEBUG:
        yield warn("settings", "SLUICE_DEBUG shows internals to everybody.", "Unset it, unless only you use this.")
    if "*" in settings.ALLOWED_HOSTS:
        yield warn(
            "settings", "SLUICE_ALLOWED_HOSTS=* lets pages be served under any name.", "List the names of this site."
        )
    if not found and not settings.DEBUG and "*" not in settings.ALLOWED_HOSTS:
        yield ok("settings", "all can be used")


def secret_key() -> Iterator[Finding]:
    """Look at the key that signs cookies and keys' digests."""
    yield judge_secret_key(settings.SLUICE)


def judge_secret_key(ours: Settings) -> Finding:
    """Judge the key that settings give or have kept; it is never shown."""
    path = ours.home_path / "secret_key"
    if ours.secret_key:
        if len(ours.secret_key) < SHORTEST_SECRET:
            return warn(
                "secret key",
                f"SLUICE_SECRET_KEY has {len(ours.secret_key)} characters.",
                f"Give it {SHORTEST_SECRET} or more, by chance. Another key ends all API keys and sessions.",
            )
        return ok("secret key", "from SLUICE_SECRET_KEY")
    if not path.exists():
        return fail("secret key", f"{path} has gone.", "Bring it back from a backup: API keys work with no other.")
    if others_may(path):
        return fail("secret key", f"{path} can be read by others.", f"Run: chmod 600 {path}")
    if len(path.read_text().strip()) < SHORTEST_SECRET:
        return warn("secret key", f"{path} is short.", f"Give it {SHORTEST_SECRET} characters or more, by chance.")
    return ok("secret key", str(path))
