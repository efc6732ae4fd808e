"""A graph as the parser understood it, and what must hold of it before anything is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mulo_engines.cache_tensors import cache_pairs
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import BuildError, EngineMismatch
from mulo_engines.signature import Signature, check_signature

__all__ = [
    "check_network",
    "declared_spec",
    "decompose_attention",
    "in_place_pairs",
    "keep_order",
    "layers",
    "parse_network",
    "unconsumed_inputs",
]

_DTYPES: Mapping[str, type[np.generic]] = {
    "FLOAT": np.float32,
    "HALF": np.float16,
    # numpy has no bfloat16: its buffers hold the bits.
    "BF16": np.uint16,
    "INT64": np.int64,
    "INT32": np.int32,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}


@dataclass(frozen=True, slots=True)
class _Interface:
    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


def parse_network(library: Any, builder: Any, logger: Any, *, graph: str, model: bytes, path: Path) -> Any:
    """Parse `model` as if it were the file at `path`, beside which its weights lie.

    Raises:
        BuildError: the parser refuses the graph; every reason is listed.
    """
    network = builder.create_network(0)
    parser = library.OnnxParser(network, logger)
    if not parser.parse(model, str(path.absolute())):
        faults = [parser.get_error(index) for index in range(parser.num_errors)]
        raise BuildError(
            f"{graph}: the parser refuses the graph",
            found="\n            ".join(f"{fault.node_name()} {fault.func()}: {fault.desc()}" for fault in faults),
            fix="export the bundle again with a current `mulo-export`",
        )
    return network


def check_network(library: Any, network: Any, graph: str, signature: Signature) -> None:
    """Check that the network is the graph that `signature` declares, and updates its caches in place.

    Raises:
        EngineMismatch: an input or output differs in name, type or shape, or a cache would be copied.
        BuildError: an input is read by no layer, or on the host.
    """
    check_signature(_Interface(graph, dict(_inputs(network)), dict(_outputs(network))), signature)
    dropped = unconsumed_inputs(network)
    if dropped:
        raise BuildError(
            f"{graph}: the parser dropped inputs without a word, so that the engine would compute something else",
            found=", ".join(dropped),
            expected="every input to be read by a layer",
            fix="export the bundle again with a current `mulo-export`",
        )
    if on_host := [tensor.name for tensor in _io_tensors(network) if tensor.is_shape_tensor]:
        raise BuildError(
            f"{graph}: a shape depends on values that the engine would want in the host's memory",
            found=", ".join(on_host),
            expected="every input and output on the GPU",
            fix="export the bundle again with a current `mulo-export`",
        )
    found, expected = in_place_pairs(library, network), cache_pairs(signature.inputs)
    if found != expected:
        raise EngineMismatch(
            f"{graph}: the caches are not all updated in place", found=found or "none", expected=expected or "none"
        )


def keep_order(library: Any, network: Any) -> None:
    """Let every input and output lie in row-major order, whatever order the builder would like better."""
    for tensor in _io_tensors(network):
        tensor.allowed_formats = 1 << int(library.TensorFormat.LINEAR)


def unconsumed_inputs(network: Any) -> list[str]:
    """Inputs of the network that no layer reads; the parser ignores some operands of some operators."""
    read = {tensor.name for layer in layers(network) for tensor in _read_by(layer)}
    read |= {network.get_output(index).name for index in range(network.num_outputs)}
    return [name for name, _ in _inputs(network) if name not in read]


def in_place_pairs(library: Any, network: Any) -> dict[str, str]:
    """The output that must be bound to the buffer of an input, by that input's name."""
    updates = (layer for layer in layers(network) if layer.type == library.LayerType.KV_CACHE_UPDATE)
    return {layer.get_input(0).name: layer.get_output(0).name for layer in updates}


def declared_spec(name: str, kind: str, shape: tuple[int, ...]) -> TensorSpec:
    """The declaration of a tensor of a network or an engine, whose `kind` is the library's name of its type.

    Raises:
        EngineMismatch: no graph of a bundle has a tensor like this.
    """
    if kind not in _DTYPES:
        raise EngineMismatch(
            f"{name}: no graph of a bundle has a type like this", found=kind, expected=", ".join(_DTYPES)
        )
    sizes = (f"{name}.{axis}" if size < 0 else size for axis, size in enumerate(shape))
    return TensorSpec(name, np.dtype(_DTYPES[kind]), tuple(sizes))


def decompose_attention(library: Any, network: Any) -> None:
    """Allow every attention to be built of several kernels."""
    for layer in layers(network):
        if layer.type == library.LayerType.ATTENTION_INPUT:
            # The library gives layers of a network their base class.
            layer.__class__ = library.IAttentionInputLayer
            layer.attention.decomposable = True


def layers(network: Any) -> Iterator[Any]:
    """The layers of the network, every one after those that it reads from."""
    return (network.get_layer(index) for index in range(network.num_layers))


def _read_by(layer: Any) -> Iterator[Any]:
    tensors = (layer.get_input(index) for index in range(layer.num_inputs))
    return (tensor for tensor in tensors if tensor is not None)


def _io_tensors(network: Any) -> Iterator[Any]:
    yield from (network.get_input(index) for index in range(network.num_inputs))
    yield from (network.get_output(index) for index in range(network.num_outputs))


def _inputs(network: Any) -> Iterator[tuple[str, TensorSpec]]:
    return (_declared(network.get_input(index)) for index in range(network.num_inputs))


def _outputs(network: Any) -> Iterator[tuple[str, TensorSpec]]:
    return (_declared(network.get_output(index)) for index in range(network.num_outputs))


def _declared(tensor: Any) -> tuple[str, TensorSpec]:
    return tensor.name, declared_spec(tensor.name, tensor.dtype.name, tuple(tensor.shape))
