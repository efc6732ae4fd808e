"""An EAGLE-1 head in plain numpy, written from its equations (Li et al., arXiv 2401.15077, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.reference.steps import Inputs, embedded, joined, linear, logits, parted
from mulo_export.reference.transformer import ReferenceTransformer

__all__ = ["ReferenceEagle"]


@dataclass(frozen=True, slots=True)
class ReferenceEagle:
    """The head in `file`; embeddings and projection are those of `target`."""

    config: TransformerConfig
    file: TensorFile
    target: TensorFile

    def run(self, inputs: Inputs) -> dict[str, NDArray[np.float32]]:
        """One step on the inputs of the head's graph; see `run_steps`."""
        (outputs,) = self.run_steps([inputs], inputs)
        return outputs

    def run_steps(self, steps: Sequence[Inputs], caches: Inputs) -> list[dict[str, NDArray[np.float32]]]:
        """Steps one after another, under the names of the head's graph; see `ReferenceTransformer.run_steps`."""
        layer = ReferenceTransformer(self.config, self.file)
        fed = embedded(steps, self.target.array("tok_embeddings.weight"))
        pairs = np.concatenate([fed, joined(steps, "previous_hidden")], axis=-1, dtype=np.float32)
        x = linear(pairs, layer.weight("fc.weight")) + layer.weight("fc.bias")
        left: list[dict[str, NDArray[np.float32]]] = [{} for _ in steps]
        x = x + layer.attention(x, 0, steps, caches, left)
        x = x + layer.feed_forward(x, 0)
        projection = np.asarray(self.target.array("output.weight"), np.float32)
        given = zip(logits(x, steps, projection), parted(x, steps), left, strict=True)
        return [{"logits": rows, "hidden": states, **own} for rows, states, own in given]
