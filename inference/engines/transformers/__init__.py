"""Continuous batching with a paged KV cache over any causal language model of transformers.

From the top: `engine` takes requests and answers for them. `scheduler`, `sequence` and `kv_blocks` decide, without
torch, who computes what and where it is kept. `runner` computes it: `batch` lays a step out, `attention` reads and
writes the `cache`, `sampling` draws. `loading` and `selftest` refuse a model that would be served wrongly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inference.engines.transformers.engine import TransformersEngine as TransformersEngine


def __getattr__(name: str) -> Any:
    """Load the engine when it is asked for, so that the policy beside it can be had without torch."""
    if name != "TransformersEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from inference.engines.transformers.engine import TransformersEngine

    return TransformersEngine
