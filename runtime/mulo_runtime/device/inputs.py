"""The inputs of a pass on a device, written where they are sent from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.device.block import BlockLayout, BlockSize
from mulo_runtime.passes import Ids, PassInputs

__all__ = ["DeviceInputs", "staged_inputs"]


@dataclass(frozen=True, slots=True)
class DeviceInputs(PassInputs):
    """Inputs in a block that is still to be sent.

    Attributes:
        size: of the pass.
        staged: the block.
        candidates, uniforms: what draws; [N, R].
        reads: the positions in the token log of what is fed; [N, Q].
    """

    size: BlockSize
    staged: NDArray[np.uint8]
    candidates: Ids
    uniforms: NDArray[np.float32]
    reads: Ids


def staged_inputs(size: BlockSize, layout: BlockLayout, staged: NDArray[np.uint8]) -> DeviceInputs:
    """The inputs of a pass of `size` as views of its block."""
    images, halves = size.images, size.halves
    mask = layout.host("attn_mask", staged)
    return DeviceInputs(
        token_ids=layout.host("token_ids", staged).reshape(2, images, size.queries)[:halves],
        position_ids=layout.host("position_ids", staged).reshape(halves, images, -1),
        write_index=layout.host("write_index", staged).reshape(halves, images),
        attn_mask=mask.reshape(1 if images == 1 else halves, images, *mask.shape[2:]),
        cond_embeds=layout.host("cond_embeds", staged),
        size=size,
        staged=staged,
        candidates=layout.host("candidate_ids", staged),
        uniforms=layout.host("uniforms", staged),
        reads=layout.host("reads", staged),
    )
