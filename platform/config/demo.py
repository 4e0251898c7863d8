"""The key of `serve --demo`, and the first request to try it with."""

from __future__ import annotations

import json
from pathlib import Path

from accounts.keys import create_key, find_key


def demo_key(path: Path) -> str:
    """Return the key kept in `path`, making one where there is none or where it was revoked."""
    if path.exists():
        plain = path.read_text().strip()
        if find_key(plain):
            return plain
    _, plain = create_key(name="demo")
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(plain + "\n")
    return plain


def curl_line(url: str, key: str) -> str:
    """Return a command that streams an answer, to be pasted into a shell."""
    body = {
        "model": "default",
        "max_tokens": 64,
        "temperature": 0.2,  # the default of the API is 1, at which a model as small as ours strays
        "stream": True,
        "messages": [{"role": "user", "content": "Why is the sky blue?"}],
    }
    return (
        f"curl -N {url}/v1/messages -H 'x-api-key: {key}' -H 'content-type: application/json' -d '{json.dumps(body)}'"
    )
