"""An upper estimate of the memory that a plan needs for what lies between its inputs and its outputs.

The engine itself says how much it needs, but only on a GPU. Here the layers run one by one, nothing is fused, no
result shares memory with what it is made of, and a result is kept until its last reader ran.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mulo_engines.engine import TensorSpec
from mulo_engines.tensorrt.network import layers
from mulo_engines.tensorrt.profiles import Profile, input_shapes

__all__ = ["activation_bytes"]

_SCORE_BYTES = 4


def activation_bytes(library: Any, network: Any, profiles: Iterable[Profile], inputs: Sequence[TensorSpec]) -> int:
    """Bytes that the hungriest of `profiles` needs at its largest; the network's input shapes are set by this."""
    peaks = []
    for profile in profiles:
        for index in range(network.num_inputs):
            tensor = network.get_input(index)
            spec = next(spec for spec in inputs if spec.name == tensor.name)
            tensor.shape = input_shapes(profile, spec)[2]
        peaks.append(_peak(library, network))
    return max(peaks)


def _peak(library: Any, network: Any) -> int:
    """The most bytes that are held at once."""
    outside = {network.get_input(index).name for index in range(network.num_inputs)}
    outside |= {network.get_output(index).name for index in range(network.num_outputs)}
    order = [layer for layer in layers(network) if layer.type != library.LayerType.CONSTANT]
    last = _last_readers(order)
    held, peak = dict[str, int](), 0
    for place, layer in enumerate(order):
        made = (layer.get_output(index) for index in range(layer.num_outputs))
        held |= {tensor.name: _bytes(tensor) for tensor in made if tensor is not None and tensor.name not in outside}
        peak = max(peak, sum(held.values()) + _inner_bytes(library, layer))
        held = {name: size for name, size in held.items() if last.get(name, -1) > place}
    return peak


def _last_readers(order: Sequence[Any]) -> Mapping[str, int]:
    last = {}
    for place, layer in enumerate(order):
        for index in range(layer.num_inputs):
            if (tensor := layer.get_input(index)) is not None:
                last[tensor.name] = place
    return last


def _inner_bytes(library: Any, layer: Any) -> int:
    """Scores of an attention before and after the softmax, which exist where it is built of several kernels."""
    if layer.type != library.LayerType.ATTENTION_INPUT:
        return 0
    (batch, heads, queries, _), (_, _, slots, _) = layer.get_input(0).shape, layer.get_input(1).shape
    return int(2 * batch * heads * queries * slots * _SCORE_BYTES)


def _bytes(tensor: Any) -> int:
    return int(math.prod(tensor.shape) * tensor.dtype.itemsize)
