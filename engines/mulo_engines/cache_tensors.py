"""What the tensors of a KV cache are called: for every layer keys and values, and the output that each becomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mulo_engines.engine import TensorSpec

__all__ = ["cache_names", "cache_pairs", "cache_spec", "layer_caches", "updated_name"]


def layer_caches(layer: int) -> tuple[str, str]:
    """The inputs that hold keys and values of one layer."""
    return f"k_cache.{layer}", f"v_cache.{layer}"


def cache_names(layers: int) -> list[str]:
    """The cache inputs of a model of so many layers, in the order of its signature."""
    return [name for layer in range(layers) for name in layer_caches(layer)]


def updated_name(cache: str) -> str:
    """The output that the input `cache` becomes; both are bound to one buffer."""
    return cache.replace("_cache.", "_cache_out.")


def cache_pairs(inputs: Iterable[TensorSpec]) -> dict[str, str]:
    """Of a graph's inputs the caches, each with the output that it becomes."""
    return {spec.name: updated_name(spec.name) for spec in inputs if "_cache." in spec.name}


def cache_spec(inputs: Mapping[str, TensorSpec]) -> TensorSpec:
    """Type and shape [B, H, S, hd] that all caches among a transformer's inputs have."""
    return inputs[layer_caches(0)[0]]
