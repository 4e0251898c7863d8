"""What computes tokens, behind one small protocol."""

from __future__ import annotations

from inference.engines.base import Engine, EngineError
from inference.protocol.settings import Settings, variable_of

VLLM_ONLY = {"tensor_parallel": 1, "pipeline_parallel": 1, "parallel_backend": "auto"}


def create_engine(settings: Settings) -> Engine:
    """Return the engine that `SLUICE_ENGINE` names, ready to serve."""
    if settings.engine == "vllm":
        from inference.engines.vllm import VllmEngine  # an engine loads only what it needs

        return VllmEngine.load(settings)
    for name, usual in VLLM_ONLY.items():
        if getattr(settings, name) != usual:
            raise EngineError(f"{variable_of(name)}={getattr(settings, name)} needs SLUICE_ENGINE=vllm.")
    if settings.engine == "simulated":
        from inference.engines.simulated import SimulatedEngine

        return SimulatedEngine.load(settings)
    from inference.engines.transformers import TransformersEngine

    return TransformersEngine.load(settings)
