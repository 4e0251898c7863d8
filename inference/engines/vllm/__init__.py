"""vLLM under our worker: for models that outgrow one device or one machine.

From the top: `engine` takes requests and answers for them, and knows nothing of vLLM. `core` drives vLLM's own engine
in this process, one step at a time. `arguments` says how it is to be started. `draws` is our sampling inside of it, so
that a message that another worker continues is the one it would have been.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inference.engines.vllm.engine import VllmEngine as VllmEngine


def __getattr__(name: str) -> Any:
    """Load the engine when it is asked for: vLLM loads `draws` from here, in processes of its own."""
    if name != "VllmEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from inference.engines.vllm.engine import VllmEngine

    return VllmEngine
