"""Continuous batching with a paged KV cache over any causal language model of transformers.

From the top: `engine` takes requests and answers for them. `scheduler`, `sequence` and `kv_blocks` decide, without
torch, who computes what and where it is kept. `runner` computes it: `batch` lays a step out, `attention` reads and
writes the `cache`, `sampling` draws. `loading` and `selftest` refuse a model that would be served wrongly.
"""

from inference.engines.transformers.engine import TransformersEngine

__all__ = ["TransformersEngine"]
