"""From the settings to a model that is ready: in the fastest way that is proven to compute what the model computes."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from inference.caches import cache_folder
from inference.engines.base import EngineError
from inference.engines.transformers import loading
from inference.engines.transformers.device import resolve_device, resolve_dtype, usable_cores
from inference.engines.transformers.loading import ModelError
from inference.engines.transformers.native.build import NoKernels, load_kernels
from inference.engines.transformers.native.runner import NativeRunner
from inference.engines.transformers.native.weights import NotOfTheFamily, pack_bfloat16, pack_int8
from inference.engines.transformers.runner import ModelRunner, StepRunner, fitting_blocks
from inference.engines.transformers.selftest import check_agrees, expect, expect_rounded
from inference.protocol.settings import Settings

logger = logging.getLogger(__name__)

PACKS = {"none": pack_bfloat16, "int8": pack_int8}
KERNELS = ".kernels"  # compiled once for this machine


@dataclass(frozen=True, slots=True)
class Served:
    """A model that can be run."""

    runner: StepRunner
    context_length: int
    end_ids: frozenset[int]


def bring_up(settings: Settings) -> Served:
    """Load the model that the settings name, and check that it is served rightly; raise an `EngineError`."""
    torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))
    device = resolve_device(settings.device)
    if settings.kernels == "torch" and settings.quantize != "none":
        raise EngineError(f"SLUICE_QUANTIZE={settings.quantize} needs our own kernels, not SLUICE_KERNELS=torch.")
    if settings.kernels != "torch":
        obstacle = _obstacle(settings, device)
        try:
            if not obstacle:
                return _bring_up_native(settings)
        except (NoKernels, NotOfTheFamily) as error:
            obstacle = str(error)
        if settings.kernels == "native" or settings.quantize != "none":
            wish = "SLUICE_KERNELS=native" if settings.quantize == "none" else f"SLUICE_QUANTIZE={settings.quantize}"
            raise EngineError(f"{wish} cannot serve {settings.model}: {obstacle}.")
        logger.info("%s runs on torch's kernels, not on ours: %s", settings.model, obstacle)
    return _bring_up_on_torch(settings, device)


def _obstacle(settings: Settings, device: torch.device) -> str:
    if device.type != "cpu":
        return f"the device is {device}"
    return "" if settings.dtype in ("auto", "bfloat16") else f"SLUICE_DTYPE is {settings.dtype}"


@torch.inference_mode()
def _bring_up_native(settings: Settings) -> Served:
    model = loading.load_model(settings.models_path / settings.model, torch.device("cpu"), torch.bfloat16)
    NativeRunner.check(model)
    kernels = load_kernels(cache_folder(settings, KERNELS), threads=torch.get_num_threads())
    context_length = _context_length(settings, model)
    num_blocks = fitting_blocks(settings.kv_cache_tokens, loading.survey(model, context_length), model)
    expected = expect_rounded(model, settings.quantize)
    runner = NativeRunner(kernels, model, context_length, num_blocks, pack=PACKS[settings.quantize])
    try:
        check_agrees(runner, expected)
    except ModelError as error:
        raise NotOfTheFamily(str(error)) from error
    return Served(runner, context_length, loading.end_of_text_ids(model))


def _bring_up_on_torch(settings: Settings, device: torch.device) -> Served:
    model = loading.load_model(settings.models_path / settings.model, device, resolve_dtype(settings.dtype, device))
    context_length = _context_length(settings, model)
    shape = loading.survey(model, context_length)
    num_blocks = fitting_blocks(settings.kv_cache_tokens, shape, model)
    runner = ModelRunner(model, shape, num_blocks, pad_decodes=device.type != "cpu")
    check_agrees(runner, expect(model))
    return Served(runner, context_length, loading.end_of_text_ids(model))


def _context_length(settings: Settings, model: PreTrainedModel) -> int:
    return min(loading.longest_context(model), settings.kv_cache_tokens)
