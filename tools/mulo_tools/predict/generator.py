"""A generator whose passes are counted: transformers, a tokenizer and a sampler, of a bundle or of a known size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mulo_engines.bundle import Bundle
from mulo_engines.cost import ModelCost, PassSize
from mulo_engines.manifest import ModelRecord
from mulo_engines.stored_tensors import StoredTensor, stored_tensors
from mulo_engines.tokenizer_cost import tokenizer_cost
from mulo_runtime.defaults import default_sampling

from mulo_tools.predict.work import Work

__all__ = ["Generator"]

_LAYER_KERNELS = 11
"""Two norms, q k v, positions, two cache writes, attention, its output, the gated pair, its product, its output."""
_OTHER_KERNELS = 4
"""Embedding, joining with the condition, last norm, logits."""
_SAMPLER_KERNELS = 24
_SAMPLER_READS = 4
"""Exponentials of a logit: for the probabilities, the pooled masses and the draw, with guidance mixed in before."""
_KERNELS_OF_CONVOLUTION = 3
"""A norm, a gate and the convolution itself."""


@dataclass(frozen=True, slots=True)
class Generator:
    """What an image is made with.

    Attributes:
        target: cost of the target.
        drafter: cost of the drafter.
        tokenizer: the tokenizer's tensors by name.
        prefix: P, positions of the condition.
        guided: whether a null half is decoded beside the conditional half.
        slots: S of a cache that does not grow, by model; None grows it with what is decoded, as ONNX Runtime does.
        head: cost of the target's EAGLE head; None where there is none.
    """

    target: ModelCost
    drafter: ModelCost
    tokenizer: Mapping[str, StoredTensor]
    prefix: int
    guided: bool
    slots: Mapping[str, int] | None = None
    head: ModelCost | None = None

    @classmethod
    def of(cls, bundle: Bundle) -> Generator:
        """Read the sizes of a bundle.

        Raises:
            BundleError: a weights file cannot be read.
        """
        decoder = next(graph for graph in bundle.manifest.graphs if graph.name == "decoder")
        return cls(
            target=ModelCost.of(bundle, "target"),
            drafter=ModelCost.of(bundle, "drafter"),
            tokenizer=stored_tensors(bundle.path / decoder.weights[0]),
            prefix=bundle.manifest.condition.length,
            guided=default_sampling(bundle.manifest).guided,
            head=ModelCost.of(bundle, "eagle") if bundle.manifest.eagle else None,
        )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the target's tokens."""
        return self.target.record.rows, self.target.record.cols

    @property
    def draft_grid(self) -> tuple[int, int]:
        """Rows and columns of the drafter's tokens."""
        return self.drafter.record.rows, self.drafter.record.cols

    def model(self, role: str) -> ModelCost:
        """The cost of the "target", the "drafter" or the "head"."""
        model = {"target": self.target, "drafter": self.drafter, "head": self.head}[role]
        assert model is not None
        return model

    def transformer(self, role: str, halves: int, queries: int, slots: int, logits: int) -> Work:
        """One pass of a model over a cache of `slots`, unless its length is fixed."""
        model = self.model(role)
        bound = self.slots[role] if self.slots else slots
        cost = model.cost(PassSize(halves, queries, bound, logits))
        record = model.record
        return Work(
            launches=_LAYER_KERNELS * record.layers + _OTHER_KERNELS,
            bytes=cost.bytes - cost.cache_read_bytes,
            cached=cost.cache_read_bytes,
            products=cost.flop,
            copied=cost.cache_read_bytes if queries > 1 else 0,
            several=queries > 1,
            elements=_attended(record, halves * queries * bound),
        )

    def sampler(self, halves: int, rows: int, *, decided: bool = False) -> Work:
        """One draw from the logits of `rows` queries of one image, whose distributions the host may want to see."""
        logits = halves * rows * self.target.vocabulary
        told = rows * self.target.vocabulary * decided
        return Work(launches=_SAMPLER_KERNELS, bytes=4 * logits, elements=_SAMPLER_READS * logits, decided=told)

    def tokenizer_graph(self, graph: str, share: float = 1.0) -> Work:
        """One pass of "upsampler", "downsampler" or "decoder" over this share of the image's rows."""
        (rows, cols), (high_rows, high_cols) = self.draft_grid, self.grid
        sizes = {"N": 1, "h": rows, "w": cols, "rh": high_rows, "rw": high_cols}
        if graph == "decoder":
            sizes = {"N": 1, "h": high_rows, "w": high_cols}
        read, flop = tokenizer_cost(self.tokenizer, graph, sizes)
        return Work(self._tokenizer_kernels(graph), read, convolutions=flop * share)

    def _tokenizer_kernels(self, graph: str) -> int:
        sides = ("decoder.",) if graph == "decoder" else ("decoder.", "encoder.")
        matrices = [name for name, tensor in self.tokenizer.items() if name.startswith(sides) and len(tensor.shape) > 1]
        return _KERNELS_OF_CONVOLUTION * len(matrices)


def _attended(record: ModelRecord, pairs: int) -> int:
    """Entries of the attention matrices of all heads and layers, of so many pairs of a query and a slot."""
    return record.layers * record.heads * pairs
