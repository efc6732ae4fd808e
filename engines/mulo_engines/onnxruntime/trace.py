"""The trace that an ONNX Runtime session writes of its nodes, in Chrome's trace event format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mulo_engines.errors import EngineError
from mulo_engines.layer_time import LayerTime

__all__ = ["read_layer_times"]

_NODE_SUFFIX = "_kernel_time"
_MICROSECOND = 1e-6


def read_layer_times(path: Path) -> list[LayerTime]:
    """The mean time of every node in all passes but the first, in the order of the pass.

    Raises:
        EngineError: the trace holds fewer than two passes.
    """
    events: list[dict[str, Any]] = json.loads(path.read_bytes())
    passes = sorted(event["ts"] for event in events if event["name"] == "model_run")
    if len(passes) < 2:
        raise EngineError(f"{path}: too few passes to time layers", found=len(passes), expected="2 or more")
    sums: dict[tuple[str, str], int] = {}
    for event in sorted(events, key=lambda event: int(event["ts"])):
        if event["cat"] == "Node" and event["name"].endswith(_NODE_SUFFIX) and event["ts"] >= passes[1]:
            key = event["name"].removesuffix(_NODE_SUFFIX), event["args"]["op_name"]
            sums[key] = sums.get(key, 0) + event["dur"]
    return [LayerTime(name, kind, total * _MICROSECOND / (len(passes) - 1)) for (name, kind), total in sums.items()]
