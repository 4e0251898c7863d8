"""How vLLM is to be started: our settings in its words."""

from __future__ import annotations

import os
from typing import Any

from inference.engines.base import EngineError
from inference.protocol.settings import SettingError, Settings

DRAWS = "inference.engines.vllm.draws:Draws"
CACHE = ".vllm"  # beside the models: what is compiled once for this machine


def prepare_environment(settings: Settings) -> None:
    """Say what vLLM reads from the environment when it is imported."""
    os.environ.update(
        VLLM_NO_USAGE_STATS="1",  # it would tell its makers of us
        VLLM_CONFIGURE_LOGGING="0",  # its lines join ours
        VLLM_USE_V2_MODEL_RUNNER="0",  # the newer one has another interface for what draws the tokens
        VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS="1",  # what they would still do is of no use to anybody
    )
    if os.access(settings.models_path, os.W_OK):
        os.environ["VLLM_CACHE_ROOT"] = str(settings.models_path / CACHE)


def arguments_of(settings: Settings) -> dict[str, Any]:
    """Return vLLM's arguments; refuse settings that it cannot follow."""
    _refuse_foreign(settings)
    return {
        "model": str(settings.models_path / settings.model),
        "load_format": "safetensors",  # no pickles
        "trust_remote_code": False,
        "skip_tokenizer_init": True,  # text is the worker's
        "generation_config": "vllm",  # a model's own defaults would change what a request asked for
        "dtype": settings.dtype,
        "max_model_len": -1,  # as long as the model was made for and the cache holds
        "max_num_seqs": min(settings.max_batch, settings.max_batch_tokens),
        "max_num_batched_tokens": settings.max_batch_tokens,
        "enable_chunked_prefill": True,
        "enable_prefix_caching": settings.prefix_cache,
        "scheduling_policy": "priority",
        "async_scheduling": False,  # each step gives what it has computed
        "tensor_parallel_size": settings.tensor_parallel,
        "pipeline_parallel_size": settings.pipeline_parallel,
        "distributed_executor_backend": None if settings.parallel_backend == "auto" else settings.parallel_backend,
        "logits_processors": [DRAWS],
        "disable_log_stats": True,
    }


def check_device(settings: Settings, device_type: str) -> None:
    """Refuse a device that is not the one of this build of vLLM, which has only one kind."""
    if settings.device not in ("auto", device_type):
        raise SettingError(
            f"SLUICE_DEVICE={settings.device!r}: this vLLM runs on {device_type}; expected auto or {device_type}. "
            "Which devices it may use is for CUDA_VISIBLE_DEVICES to say."
        )


def _refuse_foreign(settings: Settings) -> None:
    for name, usual in (("kernels", "auto"), ("quantize", "none")):
        value = getattr(settings, name)
        if value != usual:
            raise EngineError(f"SLUICE_{name.upper()}={value} is for the transformers engine; vLLM has its own ways.")
