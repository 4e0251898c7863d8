"""The native decoder: a model, its KV cache, and steps over them."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_float, c_int64, c_void_p
from dataclasses import asdict, fields

import torch
from torch import Tensor

from inference.engines.transformers.native.weights import LANES, LayerWeights, Matrix, Shape, Weights


class _Matrix(Structure):
    _fields_ = [("values", c_void_p), ("scales", c_void_p)]


class _Layer(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("attention_norm", "qkv_bias", "q_norm", "k_norm", "mlp_norm")),
        *((name, _Matrix) for name in ("qkv", "output", "gate_up", "down")),
    ]


class _Model(Structure):
    _fields_ = [
        *((n, c_int64) for n in ("layers", "hidden", "heads", "kv_heads", "head_dim", "inner", "vocab", "blocks")),
        *((name, c_float) for name in ("eps", "scale")),
        ("layer", POINTER(_Layer)),
        *((name, c_void_p) for name in ("final_norm", "cosines", "sines")),
        ("head", _Matrix),
        *((name, c_void_p) for name in ("keys", "values")),
    ]


class _Step(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("rows", "outputs", "table_width")),
        *((name, c_void_p) for name in ("positions", "sequences", "tables", "output_rows")),
        *((name, c_void_p) for name in ("stream", "normed", "projected", "attended", "gated", "logits")),
    ]


class NativeDecoder:
    """Computes steps over a KV cache of `num_blocks` blocks of 16 tokens."""

    def __init__(
        self, kernels: ctypes.CDLL, shape: Shape, weights: Weights, rotations: tuple[Tensor, Tensor], num_blocks: int
    ) -> None:
        self.shape = shape
        self.weights = weights
        self._rotations = rotations
        # Left as it is: the memory is taken when it is written to, and the kernels heed nothing that was there before.
        size = (shape.layers, shape.kv_heads, num_blocks, LANES * shape.head_dim)
        self._keys, self._values = (torch.empty(size, dtype=torch.bfloat16) for _ in range(2))
        self._layers = (_Layer * shape.layers)(*map(_layer, weights.layers))
        self._model = _Model(
            **asdict(shape),
            blocks=num_blocks,
            layer=self._layers,
            final_norm=weights.final_norm.data_ptr(),
            cosines=rotations[0].data_ptr(),
            sines=rotations[1].data_ptr(),
            head=_matrix(weights.head),
            keys=self._keys.data_ptr(),
            values=self._values.data_ptr(),
        )
        self._step = kernels.step
        self._step.argtypes = [POINTER(_Model), POINTER(_Step)]
        self._step.restype = None

    def logits(
        self, token_ids: Tensor, positions: Tensor, sequences: Tensor, tables: Tensor, output_rows: Tensor
    ) -> Tensor:
        """Compute a step; return the logits [outputs, vocab] of the output rows, which have to be in rising order.

        `token_ids`, `positions` and `sequences` are [rows], `tables` [sequences, blocks] are each sequence's blocks;
        all int32.
        """
        shape, rows, outputs = self.shape, len(token_ids), len(output_rows)
        stream = self.weights.embedding.index_select(0, token_ids).float()
        attended = shape.heads * shape.head_dim
        widest = max(attended + 2 * shape.kv_heads * shape.head_dim, 2 * shape.inner)
        normed, projected, attended_to, gated = (
            torch.empty(rows, width, dtype=torch.bfloat16) for width in (shape.hidden, widest, attended, shape.inner)
        )
        logits = torch.empty(outputs, shape.vocab)
        step = _Step(
            rows=rows,
            outputs=outputs,
            table_width=tables.shape[1],
            positions=positions.data_ptr(),
            sequences=sequences.data_ptr(),
            tables=tables.data_ptr(),
            output_rows=output_rows.data_ptr(),
            stream=stream.data_ptr(),
            normed=normed.data_ptr(),
            projected=projected.data_ptr(),
            attended=attended_to.data_ptr(),
            gated=gated.data_ptr(),
            logits=logits.data_ptr(),
        )
        self._step(byref(self._model), byref(step))
        return logits


def _layer(weights: LayerWeights) -> _Layer:
    parts = {field.name: getattr(weights, field.name) for field in fields(weights)}
    return _Layer(**{name: _matrix(part) if isinstance(part, Matrix) else _at(part) for name, part in parts.items()})


def _matrix(matrix: Matrix) -> _Matrix:
    return _Matrix(_at(matrix.values), _at(matrix.scales))


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
