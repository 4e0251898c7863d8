"""Where what is made once of models is kept, to be found again at the next start."""

from __future__ import annotations

import tempfile
from pathlib import Path

from inference.protocol.settings import Settings


def cache_folder(settings: Settings, name: str) -> Path:
    """Return the folder of that name beside the models, or with our own state where the models are read-only."""
    beside = settings.models_path / name
    return beside if takes_files(beside) else settings.home_path / name


def takes_files(folder: Path) -> bool:
    """Say whether files can be made in a folder, which is made where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
