"""Continuous batching with a paged KV cache over any causal language model of transformers.

From the top: `engine` takes requests and speaks of them; `scheduler`, `sequence` and `kv_blocks` decide, without torch,
who computes what and where it is kept; `runner` computes it: `batch` lays a step out, `attention` reads and writes the
`cache`, `sampling` draws. `loading` brings the model and refuses what would be served wrongly; `device` knows the machine.
"""
