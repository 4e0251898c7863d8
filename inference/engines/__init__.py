"""What computes tokens, behind one small protocol."""

from __future__ import annotations

from inference.engines.base import Engine
from inference.protocol.settings import Settings


def create_engine(settings: Settings) -> Engine:
    """Return the engine that `SLUICE_ENGINE` names, ready to serve."""
    if settings.engine == "simulated":
        from inference.engines.simulated import SimulatedEngine  # an engine loads only what it needs

        return SimulatedEngine.load(settings)
    from inference.engines.transformers import TransformersEngine

    return TransformersEngine.load(settings)
