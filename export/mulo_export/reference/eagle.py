"""An EAGLE-1 head in plain numpy, written from its equations (Li et al., arXiv 2401.15077, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.reference.transformer import ReferenceTransformer

__all__ = ["ReferenceEagle"]


@dataclass(frozen=True, slots=True)
class ReferenceEagle:
    """The head in `file`; embeddings and projection are those of `target`."""

    config: TransformerConfig
    file: TensorFile
    target: TensorFile

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
        """One step on the inputs of the head's graph; the outputs have the graph's names."""
        layer = ReferenceTransformer(self.config, self.file)
        tokens = np.asarray(self.target.array("tok_embeddings.weight"), np.float32)[inputs["token_ids"]]
        embedded = np.concatenate([inputs["cond_embeds"], tokens], axis=1, dtype=np.float32)
        pairs = np.concatenate([embedded, inputs["previous_hidden"]], axis=-1, dtype=np.float32)
        x = pairs @ layer.weight("fc.weight").T + layer.weight("fc.bias")
        caches: dict[str, NDArray[np.float32]] = {}
        x = x + layer.attention(x, inputs, 0, caches)
        x = x + layer.feed_forward(x, 0)
        chosen = np.take_along_axis(x, inputs["logit_rows"][:, :, None], axis=1)
        logits = chosen @ np.asarray(self.target.array("output.weight"), np.float32).T
        return {"logits": logits, "hidden": x, **caches}
