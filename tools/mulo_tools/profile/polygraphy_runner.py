"""Polygraphy's runner of ONNX Runtime over a session of ours; the only module that imports `polygraphy`.

It feeds a session by name and takes newly allocated outputs. A cache therefore cannot be updated in place: it is copied
whole in every pass, and what its runs take beyond those of a bound call is what binding saves.
"""

from __future__ import annotations

from mulo_engines.engine import Buffers, Engine
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from polygraphy.backend.onnxrt import OnnxrtRunner

from mulo_tools.profile.latency import Budget, Latency, measure

__all__ = ["polygraphy_latency"]


def polygraphy_latency(engine: Engine, buffers: Buffers, budget: Budget) -> Latency | None:
    """Time `engine` by Polygraphy's runner, which shares its session, threads and weights.

    Args:
        engine: a graph, loaded.
        buffers: arrays for its inputs and outputs, of which the inputs are fed.
        budget: how often.

    Returns:
        None where no runner takes the engine, which those of ONNX Runtime alone are taken by.
    """
    if not isinstance(engine, OnnxRuntimeEngine):
        return None
    fed = {name: buffers[name] for name in engine.inputs}
    with OnnxrtRunner(engine.session) as runner:
        return measure(lambda: runner.infer(fed, check_inputs=False), budget)
