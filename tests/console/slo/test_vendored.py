"""What others made, as they published it."""

from __future__ import annotations

import hashlib

from tests.environment import ROOT

FOLDER = ROOT / "platform/console/static/console/vendor/uplot-1.6.32"
DIGESTS = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def test_it_is_unchanged() -> None:
    found = {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in DIGESTS}
    assert found == DIGESTS


def test_the_pages_use_this_version() -> None:
    template = (ROOT / "templates/console/slo/charts.html").read_text()
    assert f"console/vendor/{FOLDER.name}/uPlot.iife.min.js" in template
