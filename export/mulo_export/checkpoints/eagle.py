"""EAGLE-1 heads: what a checkpoint's keys and shapes say of the head, given the target that it is made for.

Published heads (such as LANTERN's of LlamaGen) name their tensors as Hugging Face's Llama does, and hold a frozen copy
of the target's token embeddings, which is left out.
"""

from __future__ import annotations

from dataclasses import replace

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.shape_check import check_tensors
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import TransformerConfig, matrix, told

__all__ = ["eagle_shapes", "read_eagle"]

_STRAY = ("tok_embeddings.weight",)


def read_eagle(file: TensorFile, target: TransformerConfig) -> TransformerConfig:
    """The shape of the head in `file`, every key and shape of which is checked.

    Args:
        file: the checkpoint.
        target: the model that the head foretells; what weights do not tell is the target's.

    Raises:
        CheckpointError: the target adds positions to its input, which no head does; or tensors are missing, surplus or
            misshapen, all of which are listed.
    """
    if target.position_rows is not None:
        raise CheckpointError(
            f"{file.path}: an EAGLE head turns its keys, and the target adds positions to its input",
            found=f"a target of {target.family}",
            expected="a LlamaGen target",
            fix="export without --eagle",
        )
    heads = told(file, "n_head", None) or target.heads
    config = replace(target, layers=1, heads=heads, ffn=matrix(file, "layers.0.feed_forward.w1.weight")[0])
    check_tensors(file, eagle_shapes(config), _STRAY, f"an EAGLE head of width {target.dim}")
    return config


def eagle_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of a head."""
    dim, ffn = config.dim, config.ffn
    return {
        "fc.weight": (dim, 2 * dim),
        "fc.bias": (dim,),
        "layers.0.attention.wqkv.weight": (3 * dim, dim),
        "layers.0.attention.wo.weight": (dim, dim),
        "layers.0.feed_forward.w1.weight": (ffn, dim),
        "layers.0.feed_forward.w3.weight": (ffn, dim),
        "layers.0.feed_forward.w2.weight": (dim, ffn),
        "layers.0.ffn_norm.weight": (dim,),
    }
