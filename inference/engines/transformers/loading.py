"""Bring a model, or say why it cannot be served."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from inference.engines.base import EngineError
from inference.engines.transformers.attention import NAME, Extra
from inference.engines.transformers.cache import CacheShape

# Options of attention under which ours would compute something else.
UNSUPPORTED = ("attention_mask", "position_bias", "s_aux", "sinks", "softcap")
UNBOUNDED = 1 << 30


class ModelError(EngineError):
    """Raised when a model is missing or would be served wrongly; the message says what is in the way."""


def load_model(path: Path, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """Load safetensors from a folder: no pickles, no code of the model's own, no network."""
    if not (path / "config.json").is_file():
        raise ModelError(f"No model at {path}: `manage.py fetch_model` brings one.")
    disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers has it untyped
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=dtype,
            attn_implementation=NAME,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(f"The model at {path} cannot be loaded: {' '.join(str(error).split())}") from error
    torch.nn.Module.to(model, device)
    model.requires_grad_(False)
    return model


def longest_context(model: PreTrainedModel) -> int:
    """Return how many tokens the model was made for."""
    config = model.config.get_text_config()
    longest: int = getattr(config, "max_position_embeddings", None) or UNBOUNDED
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        # Beyond it the positions of all rows of a step would change, those of short sequences too.
        longest = min(longest, rope.get("original_max_position_embeddings", longest))
    return longest


def end_of_text_ids(model: PreTrainedModel) -> frozenset[int]:
    ids = model.generation_config.eos_token_id
    if ids is None:
        ids = model.config.get_text_config().eos_token_id
    return frozenset([] if ids is None else [ids] if isinstance(ids, int) else ids)


@dataclass(slots=True)
class Survey:
    """A step that computes nothing: it sees what each layer keeps of a token, and what it asks of attention."""

    seen: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    obstacles: set[str] = field(default_factory=set)
    window: int | None = None

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, extra: Extra) -> Tensor:
        if layer.layer_idx in self.seen:
            self.obstacles.add("attends more than once in a layer")
        self.seen[layer.layer_idx] = (key.shape[1], key.shape[3], value.shape[3])
        self.obstacles |= {f"uses {name} in its attention" for name in UNSUPPORTED if extra.get(name) is not None}
        if not (extra.get("is_causal", True) and getattr(layer, "is_causal", True)):
            self.obstacles.add("has attention that is not causal")
        window = extra.get("sliding_window")
        self.window = min(window, self.window or window) if window else self.window
        return value.new_zeros(query.shape[2], query.shape[1], value.shape[3])


@torch.inference_mode()
def survey(model: PreTrainedModel, context_length: int) -> CacheShape:
    """Return what the model keeps of a token, or raise `ModelError` if its attention is not the kind we compute."""
    found = Survey()
    ids = torch.zeros(1, 2, dtype=torch.long, device=model.device)
    try:
        model(input_ids=ids, position_ids=torch.arange(2, device=model.device)[None], use_cache=False, step=found)
    except (TypeError, KeyError, ValueError) as error:
        raise ModelError(f"{type(model).__name__} does not let its attention be replaced: {error}") from error
    num_layers = model.config.get_text_config().num_hidden_layers
    if sorted(found.seen) != list(range(num_layers)):
        found.obstacles.add("has layers without attention of the usual kind")
    if len(set(found.seen.values())) > 1:
        found.obstacles.add("keeps unlike things in its layers")
    if found.window and found.window < context_length:
        found.obstacles.add(
            f"attends to the last {found.window} tokens only (SLUICE_KV_CACHE_TOKENS={found.window} would serve it)"
        )
    if found.obstacles:
        raise ModelError(f"{type(model).__name__} cannot be served: it {', '.join(sorted(found.obstacles))}.")
    return CacheShape(num_layers, *found.seen[0])
