"""The size of Tar's AR-DTok-LP in fp16, from its published configuration: no checkpoint is read."""

from __future__ import annotations

from dataclasses import replace

from mulo_engines.cache_slots import model_buffers
from mulo_engines.cost import ModelCost
from mulo_engines.manifest import ModelRecord
from mulo_engines.stored_tensors import StoredTensor
from mulo_export.checkpoints.vq import vq_shapes

from mulo_tools.predict.generator import Generator
from mulo_tools.predict.schedules import WIDEST
from mulo_tools.synthetic_vq import VQ16

__all__ = ["SIZES", "ar_dtok"]

SIZES = (512, 1024)
"""Pixels of the targets; the drafter has 256."""
_DRAFTER_PX = 256
_PIXELS_PER_TOKEN = 16
_LAYERS, _DIM, _HEADS, _FFN = 30, 1280, 20, 3584
"""Preset llama-abs-LP of its code, 632 M parameters; arXiv 2506.18898."""
_VOCABULARY = 16384
_CODES = 729
"""TA-Tok codes, the condition."""
_FP16 = 2


def ar_dtok(px: int) -> Generator:
    """A pair of AR-DTok-LP, of 256 px and of `px`, with guidance and caches as long as plain decoding needs.

    The target's EAGLE head is one of its layers, and a matrix that joins the hidden state with the token.
    """
    target, drafter = _model(px), _model(_DRAFTER_PX)
    return Generator(
        target=target,
        drafter=drafter,
        tokenizer={name: StoredTensor("F16", shape) for name, shape in vq_shapes(VQ16).items()},
        prefix=_CODES,
        guided=True,
        slots={"target": _slots(target), "drafter": _slots(drafter), "head": _slots(target)},
        head=_head(target),
    )


def _head(target: ModelCost) -> ModelCost:
    layer = target.layers[1] // target.record.layers + 2 * target.record.dim**2
    record = target.record.model_copy(update={"layers": 1})
    return replace(target, record=record, layers=(target.element * layer, layer))


def _model(px: int) -> ModelCost:
    side = px // _PIXELS_PER_TOKEN
    layers = _LAYERS * (4 * _DIM**2 + 3 * _DIM * _FFN)
    output = _VOCABULARY * _DIM
    return ModelCost(
        record=ModelRecord(
            rows=side,
            cols=side,
            layers=_LAYERS,
            heads=_HEADS,
            head_dim=_DIM // _HEADS,
            dim=_DIM,
            cache_dtype="float16",
        ),
        vocabulary=_VOCABULARY,
        layers=(_FP16 * layers, layers),
        output=(_FP16 * output, output),
        element=_FP16,
    )


def _slots(model: ModelCost) -> int:
    return model_buffers(_CODES, model.record.rows * model.record.cols, WIDEST).slots
