"""vLLM's own engine, driven in this process."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

import torch
from vllm import SamplingParams
from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.inputs import tokens_input
from vllm.outputs import RequestOutput
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.llm_engine import LLMEngine
from vllm.v1.executor import Executor, UniProcExecutor

from inference.engines.base import EngineError, EngineStats
from inference.engines.transformers.device import give_memory_back, is_out_of_memory
from inference.engines.transformers.memory import Memory, MemoryGauge
from inference.engines.vllm.arguments import arguments_of, check_device
from inference.engines.vllm.draws import extra_args
from inference.engines.vllm.engine import CoreOutput, CoreRequest, StepFailed
from inference.protocol.settings import Settings

logger = logging.getLogger(__name__)

LARGEST_BLOCK = 128  # tokens; which it is to be, vLLM decides later
WORDS_OF_OOM = ("out of memory", "OutOfMemoryError")  # of a worker process: its error comes as text


class VllmCore:
    """One engine of vLLM. Its scheduler is in this process, what computes may be in others."""

    def __init__(self, engine: LLMEngine) -> None:
        config: VllmConfig = engine.vllm_config
        self.context_length: int = config.model_config.max_model_len
        self.max_batch: int = config.scheduler_config.max_num_seqs
        self.vocab_size: int = config.model_config.get_vocab_size()
        self.end_ids = _end_of_text_ids(config)
        self._engine = engine
        self._scheduler = engine.engine_core.engine_core.scheduler
        self._is_split = config.parallel_config.world_size > 1
        self._kv_tokens: int = (config.cache_config.num_gpu_blocks - 1) * config.cache_config.block_size
        self._device: str = current_platform.device_type
        # Where other processes compute it is for them to say; on a GPU, asking would cost some of it.
        is_here = isinstance(engine.engine_core.engine_core.model_executor, UniProcExecutor)
        self._memory = MemoryGauge(torch.device(self._device)) if is_here else None

    @classmethod
    def start(cls, settings: Settings) -> VllmCore:
        """Load the model that the settings name; raise an `EngineError` that says what is in the way."""
        check_device(settings, current_platform.device_type)
        arguments = arguments_of(settings)
        try:
            config = EngineArgs(**arguments).create_engine_config()
            config.cache_config.kv_cache_memory_bytes = _cache_bytes(config, settings.kv_cache_tokens)
            return cls(LLMEngine(config, Executor.get_class(config), log_stats=False))
        except Exception as error:  # some of what it raises has no type of its own
            words, _, _ = " ".join(str(error).split()).partition(" [type=")  # then all arguments follow
            raise EngineError(f"vLLM cannot serve {settings.model}: {type(error).__name__}: {words}") from error

    def add(self, request: CoreRequest) -> None:
        params = SamplingParams(
            temperature=0,  # the likeliest of what `Draws` leaves
            max_tokens=request.max_tokens,
            stop_token_ids=sorted(self.end_ids),
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args=extra_args(request.sampling, request.position),
        )
        prompt = tokens_input(request.token_ids, cache_salt=request.salt or None)
        self._engine.add_request(request.id, prompt, params, priority=int(request.rank * 1000))

    def abort(self, request_id: str) -> None:
        self._engine.abort_request([request_id])

    def step(self) -> list[CoreOutput]:
        try:
            outputs = self._engine.step()
        except Exception as error:
            self._give_up_step(error)
        return [_core_output(output) for output in outputs]

    def stats(self) -> EngineStats:
        running, waiting = self._scheduler.get_request_counts()
        memory = self._memory.read() if self._memory else Memory(self._device, 0, 0)
        return EngineStats(
            running=running,
            waiting=waiting,
            kv_tokens_used=round(self._scheduler.get_kv_cache_usage() * self._kv_tokens),
            kv_tokens_wanted=sum(request.num_tokens for request in self._scheduler.waiting),
            kv_tokens_total=self._kv_tokens,
            device=memory.device,
            memory_used=memory.used,
            memory_total=memory.total,
        )

    def _give_up_step(self, error: Exception) -> NoReturn:
        """Take out what was computed; where there are several devices they may be at odds, and this worker ends."""
        out_of_memory = is_out_of_memory(error) or any(words in str(error) for words in WORDS_OF_OOM)
        if self._is_split or (isinstance(error, torch.AcceleratorError) and not out_of_memory):
            raise error
        names = [self._name_of(request.request_id) for request in self._scheduler.running]
        logger.error("A step with %d sequences failed.", len(names), exc_info=error)
        self._engine.abort_request(names)
        if not self._engine.reset_prefix_cache():  # it holds what was to be computed as if it had been
            raise error
        if out_of_memory:
            give_memory_back()
        raise StepFailed(names, out_of_memory=out_of_memory)

    def _name_of(self, request_id: str) -> str:
        """Return our name of a request, which vLLM has made one of its own from."""
        state = self._engine.output_processor.request_states[request_id]
        name: str = state.external_req_id
        return name


def _core_output(output: RequestOutput) -> CoreOutput:
    (completion,) = output.outputs
    reason = completion.finish_reason
    finish: Any = reason if reason in (None, "stop", "length") else "failed"
    return CoreOutput(output.request_id, tuple(completion.token_ids), finish, output.num_cached_tokens or 0)


def _end_of_text_ids(config: VllmConfig) -> frozenset[int]:
    ids = config.model_config.try_get_generation_config().get("eos_token_id")
    if ids is None:
        ids = getattr(config.model_config.hf_text_config, "eos_token_id", None)
    return frozenset([] if ids is None else [ids] if isinstance(ids, int) else ids)


def _cache_bytes(config: VllmConfig, num_tokens: int) -> int:
    """Return what so many tokens take on each device, and the one block that vLLM keeps for itself."""
    model, parallel = config.model_config, config.parallel_config
    numbers = 2 * model.get_num_layers(parallel) * model.get_num_kv_heads(parallel) * model.get_head_size()
    blocks = -(-num_tokens // LARGEST_BLOCK) + 1
    return int(blocks * LARGEST_BLOCK * numbers * model.dtype.itemsize)
