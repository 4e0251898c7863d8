"""A secret that is generated once and kept in a file that only we can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def read_or_create(path: Path) -> str:
    """Return the secret in `path`, making one (50 random bytes) first where there is none; safe for two at once."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(50))
        try:
            os.link(draft, path)  # fails where another process was first: then its secret counts
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text().strip()
