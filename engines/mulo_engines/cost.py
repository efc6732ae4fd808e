"""What a pass of a graph must move and compute, whatever runs it: the work that a machine's limits are held against.

Counted are the bytes that cannot be avoided, each once: weights, the bound cache, inputs and outputs; and the products
of matrices, a multiplication and an addition each one FLOP. Activations that stay inside a graph are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mulo_engines.bundle import Bundle
from mulo_engines.manifest import ModelRecord
from mulo_engines.memory import tensor_bytes
from mulo_engines.signature import graph_signature
from mulo_engines.stored_tensors import StoredTensor, stored_tensors
from mulo_engines.tokenizer_cost import tokenizer_cost

__all__ = ["Cost", "ModelCost", "PassSize", "graph_cost"]

_HALF_BYTES = ("int4", "int4-tensorrt")
"""Precisions whose stored bytes hold two weights each."""
_LOGIT_BYTES = 4


@dataclass(frozen=True, slots=True)
class PassSize:
    """The size of one pass of a drafter or target.

    Attributes:
        batch: B, images, twice with guidance.
        queries: T, condition positions and tokens fed.
        slots: S, the bound length of the cache, which the explicit mask has attention read whole.
        logits: R, queries that get logits.
    """

    batch: int
    queries: int
    slots: int
    logits: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What one pass takes.

    Attributes:
        weight_bytes: weights read, each once.
        cache_read_bytes: keys and values attended to.
        cache_written_bytes: keys and values of the pass's own queries.
        other_bytes: the remaining inputs and outputs.
        flop: additions and multiplications of products of matrices.
    """

    weight_bytes: int
    cache_read_bytes: int
    cache_written_bytes: int
    other_bytes: int
    flop: int

    @property
    def bytes(self) -> int:
        """Bytes altogether."""
        return self.weight_bytes + self.cache_read_bytes + self.cache_written_bytes + self.other_bytes

    def seconds(self, bytes_per_second: float, flop_per_second: float) -> float:
        """The least time that a machine of these rates needs: the slower of moving and computing (roofline)."""
        return max(self.bytes / bytes_per_second, self.flop / flop_per_second)


@dataclass(frozen=True, slots=True)
class ModelCost:
    """The cost of a drafter, a target or its EAGLE head as a function of the pass.

    Attributes:
        record: the transformer's size.
        vocabulary: V.
        layers: bytes and number of the weights that every query is multiplied with.
        output: bytes and number of the weights that make logits.
        element: bytes of an activation or of a key's element.
    """

    record: ModelRecord
    vocabulary: int
    layers: tuple[int, int]
    output: tuple[int, int]
    element: int

    @classmethod
    def of(cls, bundle: Bundle, role: str) -> ModelCost:
        """Read the sizes of `role`, "drafter", "target" or "eagle", from the manifest and the headers of its weights.

        Raises:
            BundleError: a weights file cannot be read.
        """
        manifest = bundle.manifest
        (graph,) = (graph for graph in manifest.graphs if graph.name == role)
        # A head's own weights come first; behind them it names the target's, whose output projection it shares.
        own, shared = (stored_tensors(bundle.path / graph.weights[index]) for index in (0, -1))
        packed = 2 if manifest.precision in _HALF_BYTES else 1
        record = getattr(manifest, role)
        return cls(
            record=record,
            vocabulary=manifest.vocabulary,
            layers=_weights(_named(own, "layers.", "fc."), packed),
            output=_weights(_named(shared, "output."), packed),
            element=2 if record.cache_dtype in ("float16", "bfloat16") else 4,
        )

    def cost(self, size: PassSize) -> Cost:
        """The cost of one pass of this size."""
        record, queries = self.record, size.batch * size.queries
        row = 2 * record.layers * record.heads * record.head_dim
        logits = size.batch * size.logits
        attention = 2 * row * queries * size.slots
        return Cost(
            weight_bytes=self.layers[0] + self.output[0],
            cache_read_bytes=row * size.batch * size.slots * self.element,
            cache_written_bytes=row * queries * self.element,
            other_bytes=queries * record.dim * self.element + logits * self.vocabulary * _LOGIT_BYTES,
            flop=2 * queries * self.layers[1] + 2 * logits * self.output[1] + attention,
        )


def graph_cost(bundle: Bundle, graph: str, sizes: Mapping[str, int]) -> Cost:
    """The cost of one pass of `graph`; a condition's graph, which runs once an image, counts without its weights.

    Args:
        bundle: the bundle, opened.
        graph: a graph of the bundle.
        sizes: the value of every symbol of the graph's signature.

    Raises:
        BundleError: a weights file cannot be read.
    """
    if graph in ("drafter", "target"):
        size = PassSize(sizes["B"], sizes["T"], sizes["S"], sizes["R"])
        return ModelCost.of(bundle, graph).cost(size)
    signature = graph_signature(bundle.manifest, graph)
    moved = tensor_bytes([*signature.inputs, *signature.outputs], sizes)
    if graph in ("upsampler", "downsampler", "decoder"):
        (record,) = (record for record in bundle.manifest.graphs if record.name == graph)
        weights, flop = tokenizer_cost(stored_tensors(bundle.path / record.weights[0]), graph, sizes)
        return Cost(weights, 0, 0, moved, flop)
    return Cost(0, 0, 0, moved, 0)


def _named(tensors: Mapping[str, StoredTensor], *starts: str) -> dict[str, StoredTensor]:
    return {name: tensor for name, tensor in tensors.items() if name.startswith(starts)}


def _weights(tensors: Mapping[str, StoredTensor], packed: int) -> tuple[int, int]:
    """Bytes of `tensors`, and numbers in their matrices; those of type U8 hold `packed` numbers a byte."""
    matrices = [tensor for name, tensor in tensors.items() if name.endswith(".weight") and len(tensor.shape) > 1]
    numbers = sum(tensor.values * (packed if tensor.dtype == "U8" else 1) for tensor in matrices)
    return sum(tensor.nbytes for tensor in tensors.values()), numbers
