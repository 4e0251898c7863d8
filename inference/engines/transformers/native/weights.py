"""What the native decoder needs of a model, in the form that it needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

LANES = 16
MAX_HEAD_DIM = 256
FAMILY = ("llama", "mistral", "qwen2", "qwen3")  # whose layers are made alike; what they do is checked all the same


class NotOfTheFamily(Exception):
    """Raised when a model is made in another way than the native decoder; the message says how."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    eps: float
    scale: float


def shape_of(model: PreTrainedModel) -> Shape:
    """Return a model's sizes; raise `NotOfTheFamily`."""
    config: Any = model.config
    if config.model_type not in FAMILY:
        raise NotOfTheFamily(f"{config.model_type} is none of {', '.join(FAMILY)}")
    if config.hidden_act != "silu":
        raise NotOfTheFamily(f"its activation is {config.hidden_act}")
    attention: Any = _layers(model)[0].self_attn
    shape = Shape(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=attention.head_dim,
        inner=config.intermediate_size,
        vocab=config.vocab_size,
        eps=config.rms_norm_eps,
        scale=attention.scaling,
    )
    for name in ("hidden", "head_dim", "inner"):
        if getattr(shape, name) % LANES:
            raise NotOfTheFamily(f"its {name} size, {getattr(shape, name)}, is no multiple of {LANES}")
    if shape.head_dim > MAX_HEAD_DIM:
        raise NotOfTheFamily(f"its heads have {shape.head_dim} dimensions")
    return shape


@dataclass(frozen=True, slots=True)
class Matrix:
    """A packed matrix: values [out / 16, in / 2, 16, 2], bfloat16 or int8, and then a scale for each output."""

    values: Tensor
    scales: Tensor | None = None


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer: matrices, the rest float32, None what the model does without."""

    attention_norm: Tensor
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    mlp_norm: Tensor
    qkv: Matrix
    output: Matrix
    gate_up: Matrix
    down: Matrix


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole model, `embedding` [vocab, hidden] and the head included; it holds nothing of the original."""

    layers: list[LayerWeights]
    embedding: Tensor
    final_norm: Tensor
    head: Matrix


Pack = Callable[[Tensor], Matrix]


def take_weights(model: PreTrainedModel, pack: Pack) -> Weights:
    """Pack a model's weights, giving up its own on the way, so that they are in memory once; raise `NotOfTheFamily`."""
    body: Any = model.model
    head: Any = model.lm_head
    if head.bias is not None:
        raise NotOfTheFamily("its head has a bias")
    layers = [_take_layer(layer, pack) for layer in _layers(model)]
    embedding = body.embed_tokens.weight.detach().bfloat16()
    packed_head = pack(head.weight)
    return Weights(layers, embedding, _float(body.norm.weight), packed_head)


def rotations(model: PreTrainedModel, context_length: int) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of all positions, [positions, head_dim] each."""
    positions = torch.arange(context_length)[None]
    like = torch.zeros(1, 1, 1, dtype=torch.float32)
    cosines, sines = model.model.rotary_emb(like, positions)
    return _float(cosines[0]), _float(sines[0])


def pack_bfloat16(weight: Tensor) -> Matrix:
    """Pack a weight [out, in] as it is."""
    return Matrix(_packed(weight.detach().bfloat16()))


def pack_int8(weight: Tensor) -> Matrix:
    """Pack a weight [out, in] in half the memory, each output's rounded to 255 steps of its own size."""
    weight = weight.detach().float()
    scales = weight.abs().amax(dim=1).clamp_(min=1e-12) / 127
    return Matrix(_packed((weight / scales[:, None]).round_().to(torch.int8)), scales.contiguous())


def _packed(weight: Tensor) -> Tensor:
    weight = pad(weight, (0, 0, 0, -weight.shape[0] % LANES))
    return weight.view(-1, LANES, weight.shape[1] // 2, 2).transpose(1, 2).contiguous()


def _layers(model: PreTrainedModel) -> Any:
    body: Any = model.model
    return body.layers


def _take_layer(layer: Any, pack: Pack) -> LayerWeights:
    attention, mlp = layer.self_attn, layer.mlp
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    for name, linear in (("output", attention.o_proj), ("gate", mlp.gate_proj), ("down", mlp.down_proj)):
        if linear.bias is not None:
            raise NotOfTheFamily(f"its {name} projection has a bias")
    biases = [linear.bias for linear in projections if linear.bias is not None]
    taken = LayerWeights(
        attention_norm=_float(layer.input_layernorm.weight),
        qkv_bias=_float(torch.cat(biases)) if biases else None,
        q_norm=_float(attention.q_norm.weight) if hasattr(attention, "q_norm") else None,
        k_norm=_float(attention.k_norm.weight) if hasattr(attention, "k_norm") else None,
        mlp_norm=_float(layer.post_attention_layernorm.weight),
        qkv=pack(torch.cat([linear.weight for linear in projections])),
        output=pack(attention.o_proj.weight),
        gate_up=pack(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])),
        down=pack(mlp.down_proj.weight),
    )
    for linear in (*projections, attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj):
        linear.weight.data = linear.weight.new_empty(0)
    return taken


def _float(tensor: Tensor) -> Tensor:
    return tensor.detach().float().contiguous()
