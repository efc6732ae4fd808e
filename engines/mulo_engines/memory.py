"""How much memory a bundle needs, known before any of it is allocated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mulo_engines.cache_tensors import cache_pairs
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import OutOfMemory
from mulo_engines.manifest import Manifest
from mulo_engines.signature import graph_signature

__all__ = ["MemoryPlan", "ModelBuffers", "available_memory", "model_bytes", "plan_memory", "tensor_bytes"]


@dataclass(frozen=True, slots=True)
class ModelBuffers:
    """For what one model's buffers are made.

    Attributes:
        slots: S, the capacity of its cache.
        queries: the largest number of queries of one pass, all of which may get logits.
    """

    slots: int
    queries: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by what they are for."""

    parts: Mapping[str, int]

    @property
    def total(self) -> int:
        """Bytes altogether."""
        return sum(self.parts.values())

    def plus(self, part: str, size: int) -> MemoryPlan:
        """This plan and `size` bytes for `part`."""
        return MemoryPlan({**self.parts, part: size})

    def __str__(self) -> str:
        rows = [*self.parts.items(), ("total", self.total)]
        return "\n".join(f"{size / 2**20:12,.1f} MiB  {name}" for name, size in rows)

    def require(self, available: int | None) -> None:
        """Check that the plan fits `available` bytes; None is not known and passes.

        Raises:
            OutOfMemory: it does not; the message shows the sum.
        """
        if available is not None and self.total > available:
            raise OutOfMemory(
                "the bundle does not fit the memory",
                found=f"{available / 2**20:,.1f} MiB available",
                expected=f"\n{self}",
                fix="open it with fewer lanes or images per batch, or free memory",
            )


def plan_memory(
    manifest: Manifest, *, lanes: int, images: int, drafter: ModelBuffers, target: ModelBuffers
) -> MemoryPlan:
    """Plan the memory of a pipeline with classifier-free guidance.

    Weights count as the bytes of their files, once. ONNX Runtime keeps its own packed copy of them for every graph,
    instead of the file's pages; graphs that use the same part of a file therefore need that part again.

    Args:
        manifest: what the bundle holds.
        lanes: lanes that serve requests side by side.
        images: N, the images that one lane decodes together.
        drafter: sizes of the drafter's buffers.
        target: sizes of the target's buffers.
    """
    weights = {path for graph in manifest.graphs for path in graph.weights}
    parts = {file.path: file.size for file in manifest.files if file.path in weights}
    for role, buffers in (("drafter", drafter), ("target", target)):
        cache, inputs = _model_bytes(manifest, role, images, buffers)
        parts |= {f"{role} caches": lanes * cache, f"{role} inputs": lanes * inputs}
    parts["sampler"] = lanes * _sampler_bytes(manifest, images, max(drafter.queries, target.queries))
    return MemoryPlan(parts)


def model_bytes(manifest: Manifest, role: str, images: int, buffers: ModelBuffers) -> int:
    """Bytes of a model's caches and other inputs on one lane; see `plan_memory`."""
    return sum(_model_bytes(manifest, role, images, buffers))


def tensor_bytes(specs: Iterable[TensorSpec], sizes: Mapping[str, int]) -> int:
    """Bytes of arrays for `specs`, whose symbols have these `sizes`."""
    total = 0
    for spec in specs:
        count = spec.dtype.itemsize
        for size in spec.shape:
            count *= sizes[size] if isinstance(size, str) else size
        total += count
    return total


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still use: what the machine has, or what its control group leaves of it.

    Args:
        root: where `proc` and `sys` are mounted.

    Returns:
        None where the operating system does not tell, which only Linux does.
    """
    meminfo = root / "proc/meminfo"
    if not meminfo.is_file():
        return None
    available = _fields(meminfo, ":")["MemAvailable"] * 1024
    limit = root / "sys/fs/cgroup/memory.max"
    if not limit.is_file() or limit.read_text().strip() == "max":
        return available
    # The kernel drops inactive pages of files before it refuses memory.
    used = int(limit.with_name("memory.current").read_text())
    droppable = _fields(limit.with_name("memory.stat"), " ")["inactive_file"]
    return min(available, max(int(limit.read_text()) - used + droppable, 0))


def _fields(path: Path, separator: str) -> dict[str, int]:
    pairs = (line.split(separator) for line in path.read_text().splitlines())
    return {name: int(value.split()[0]) for name, value in pairs}


def _model_bytes(manifest: Manifest, role: str, images: int, buffers: ModelBuffers) -> tuple[int, int]:
    """Bytes of a model's caches, updated in place, and of its other inputs."""
    inputs, outputs = graph_signature(manifest, role)
    prefix, batch = manifest.condition.length, 2 * images
    sizes = {"B": batch, "C": prefix, "Q": buffers.queries, "T": max(prefix, buffers.queries), "S": buffers.slots}
    sizes |= {"R": buffers.queries, "M": batch if images > 1 else 1}
    held = cache_pairs(inputs)
    caches = [spec for spec in inputs if spec.name in held]
    hidden = [spec for spec in outputs if spec.name == "hidden"]
    return tensor_bytes(caches, sizes), tensor_bytes([*hidden, *(set(inputs) - set(caches))], sizes)


def _sampler_bytes(manifest: Manifest, images: int, queries: int) -> int:
    signature = graph_signature(manifest, "sampler")
    sizes = {"B": 2 * images, "N": images, "R": queries}
    return tensor_bytes([*signature.inputs, *signature.outputs], sizes)
