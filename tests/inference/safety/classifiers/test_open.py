from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from inference.safety.classifiers import FOLDER, open_classifier
from inference.safety.classifiers.base import ClassifierError


def test_it_opens_each_once(folder: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MODELS", str(tmp_path))
    (tmp_path / FOLDER).symlink_to(folder)
    (tmp_path / "exclusive").symlink_to(models / "exclusive")

    toxicity = open_classifier("toxicity", "", "cpu")
    transformer = open_classifier("transformer", "exclusive", "cpu")

    assert toxicity.categories == ("toxicity",)
    assert transformer.categories == ("sea", "farm")
    assert open_classifier("toxicity", "", "cpu") is toxicity
    assert open_classifier("transformer", "exclusive", "cpu") is transformer


def test_it_tries_again_after_a_failure(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MODELS", str(tmp_path))
    with pytest.raises(ClassifierError, match="fetch_model late"):
        open_classifier("transformer", "late", "cpu")
    (tmp_path / "late").symlink_to(models / "exclusive")

    assert open_classifier("transformer", "late", "cpu").categories == ("sea", "farm")


def test_it_refuses_what_is_no_classifier() -> None:
    with pytest.raises(ClassifierError, match="expected toxicity or transformer"):
        open_classifier("patterns", "", "cpu")


def test_it_loads_nothing_before_it_has_to() -> None:
    code = "import sys, inference.safety.classifiers; print({'torch', 'sklearn', 'numpy'} & set(sys.modules))"

    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
