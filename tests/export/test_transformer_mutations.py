"""The golden comparison catches every known way to port this architecture wrongly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mulo_export.graphs.layers
import mulo_export.graphs.transformer
import numpy as np
import pytest
from golden_models import TOLERANCE, GoldenModel, Tensors, open_golden
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.rope import rope_tables
from mulo_export.reference.transformer import ReferenceTransformer
from numpy.typing import NDArray

Tables = tuple[NDArray[np.float32], NDArray[np.float32]]

ALL = pytest.mark.parametrize("name", ["llamagen_c2i", "llamagen_t2i", "tar_ar_dtok"])
BOTH = pytest.mark.parametrize("name", ["llamagen_c2i", "llamagen_t2i"])
CAUGHT = 3 * TOLERANCE


def _golden_error(model: GoldenModel) -> float:
    with model.transformer() as engine:
        return model.error(engine.run_once(model.step(model.embeddings(), model.stored["tokens"]))["logits"])


def _prefix_unrotated(config: TransformerConfig) -> Tables:
    cosines, sines = rope_tables(config)
    cosines[: config.prefix] = config.head_dim**-0.25
    return cosines, sines


def _column_first(config: TransformerConfig) -> Tables:
    cosines, sines = rope_tables(config)
    return np.roll(cosines, config.head_dim // 4, axis=1), np.roll(sines, config.head_dim // 4, axis=1)


def _one_axis(config: TransformerConfig) -> Tables:
    """Positions of a line instead of a grid."""
    return rope_tables(replace(config, grid=config.grid**2))


def _unscaled(config: TransformerConfig) -> Tables:
    cosines, sines = rope_tables(config)
    return cosines * np.float32(config.head_dim**0.25), sines * np.float32(config.head_dim**0.25)


@BOTH
@pytest.mark.parametrize("wrong", [_prefix_unrotated, _column_first, _one_axis, _unscaled])
def test_a_wrong_rotary_table_is_caught(
    name: str, wrong: Callable[[TransformerConfig], Tables], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mulo_export.graphs.layers, "rope_tables", wrong)
    assert _golden_error(open_golden(name, tmp_path)) > CAUGHT


@pytest.mark.parametrize(
    ("name", "op", "wrong"),
    [
        ("llamagen_c2i", "RotaryEmbedding", {"interleaved": 0}),
        ("llamagen_t2i", "RotaryEmbedding", {"interleaved": 0}),
        ("llamagen_t2i", "Gelu", {"approximate": "none"}),
        ("llamagen_c2i", "RMSNormalization", {"epsilon": 1e-3}),
        ("llamagen_c2i", "Attention", {"scale": 1.01}),
        ("tar_ar_dtok", "Attention", {"scale": 1.01}),
        ("tar_ar_dtok", "RMSNormalization", {"epsilon": 1e-3}),
    ],
)
def test_a_wrong_attribute_is_caught(
    name: str, op: str, wrong: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = GraphBuilder.op

    def mutated(graph: GraphBuilder, op_type: str, *inputs: Value | None, **attributes: Any) -> Value:
        return right(graph, op_type, *inputs, **(attributes | wrong if op_type == op else attributes))

    monkeypatch.setattr(GraphBuilder, "op", mutated)
    assert _golden_error(open_golden(name, tmp_path)) > CAUGHT


def _swap_gate_and_up(tensors: Tensors) -> None:
    for layer in range(3):
        stem = f"layers.{layer}.feed_forward"
        gate, up = f"{stem}.w1.weight", f"{stem}.w3.weight"
        tensors[gate], tensors[up] = tensors[up], tensors[gate]


def _interleave_heads(tensors: Tensors) -> None:
    """q, k and v of a head beside each other."""
    for layer in range(3):
        name = f"layers.{layer}.attention.wqkv.weight"
        by_part = tensors[name].reshape(3, 4, 32, 128)
        tensors[name] = np.ascontiguousarray(by_part.swapaxes(0, 1)).reshape(384, 128)


def _swap_query_and_key(tensors: Tensors) -> None:
    for layer in range(3):
        query, key, value = np.split(tensors[f"layers.{layer}.attention.wqkv.weight"], 3)
        tensors[f"layers.{layer}.attention.wqkv.weight"] = np.concatenate([key, query, value])


def _swap_norms(tensors: Tensors) -> None:
    for layer in range(3):
        first, second = f"layers.{layer}.attention_norm.weight", f"layers.{layer}.ffn_norm.weight"
        tensors[first], tensors[second] = tensors[second], tensors[first]


@ALL
@pytest.mark.parametrize("wrong", [_swap_gate_and_up, _interleave_heads, _swap_query_and_key, _swap_norms])
def test_misread_weights_are_caught(name: str, wrong: Callable[[Tensors], None], tmp_path: Path) -> None:
    assert _golden_error(open_golden(name, tmp_path, wrong)) > CAUGHT


def _no_positions(tensors: Tensors) -> None:
    tensors["abs_pe"][:] = 0


def _positions_of_image_tokens_only(tensors: Tensors) -> None:
    tensors["abs_pe"][:, :9] = 0


def _positions_from_zero_at_the_first_image_token(tensors: Tensors) -> None:
    tensors["abs_pe"] = np.ascontiguousarray(np.roll(tensors["abs_pe"], 9, axis=1))


def _no_projection_bias(tensors: Tensors) -> None:
    tensors["clip_proj.bias"][:] = 0


@pytest.mark.parametrize(
    "wrong",
    [
        _no_positions,
        _positions_of_image_tokens_only,
        _positions_from_zero_at_the_first_image_token,
        _no_projection_bias,
    ],
)
def test_a_wrong_position_or_prefix_of_tar_is_caught(wrong: Callable[[Tensors], None], tmp_path: Path) -> None:
    assert _golden_error(open_golden("tar_ar_dtok", tmp_path, wrong)) > CAUGHT


def test_a_rotation_in_tar_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = mulo_export.graphs.transformer.shared_step

    def rotated(*arguments: Any) -> Any:
        step = right(*arguments)
        tables = rope_tables(step.config)
        return replace(step, rotary=(step.graph.constant(tables[0]), step.graph.constant(tables[1])))

    monkeypatch.setattr(mulo_export.graphs.transformer, "shared_step", rotated)
    assert _golden_error(open_golden("tar_ar_dtok", tmp_path)) > CAUGHT


@pytest.mark.parametrize(
    ("name", "null"),
    [
        ("llamagen_c2i", "cls_embedding.embedding_table.weight"),
        ("llamagen_t2i", "cls_embedding.uncond_embedding"),
    ],
)
def test_another_null_condition_is_caught_in_the_null_half_only(name: str, null: str, tmp_path: Path) -> None:
    def shift(tensors: Tensors) -> None:
        tensors[null][-1] = tensors[null][0]

    model = open_golden(name, tmp_path, shift)
    with model.transformer() as engine:
        logits = engine.run_once(model.step(model.embeddings(), model.stored["tokens"]))["logits"]
    difference = np.abs(logits - model.stored["logits"])
    assert difference[0].max() < TOLERANCE
    assert difference[1].max() > CAUGHT


def test_a_prompt_mask_that_is_not_copied_to_the_null_half_is_caught(tmp_path: Path) -> None:
    model = open_golden("llamagen_t2i", tmp_path)
    step = model.step(model.embeddings(), model.stored["tokens"])
    length = step["attn_mask"].shape[-1]
    step["attn_mask"][1] = np.tri(length, dtype=np.bool_)
    with model.transformer() as engine:
        assert model.error(engine.run_once(step)["logits"]) > CAUGHT


def test_padded_positions_that_do_not_see_themselves_are_caught(tmp_path: Path) -> None:
    """No image token sees such a slot, so that only its own values tell; torch would make them NaN and poison all."""
    model = open_golden("llamagen_t2i", tmp_path)
    step = model.step(model.embeddings(), model.stored["tokens"])
    expected = ReferenceTransformer(model.config, model.file).run(step)["v_cache_out.1"]
    padded = np.flatnonzero(model.stored["mask"][0] == 0)
    step["attn_mask"][:, :, padded, padded] = False
    with model.transformer() as engine:
        found = engine.run_once(step)["v_cache_out.1"]
    assert padded.size
    assert np.abs(found - expected)[:, :, padded].max() > CAUGHT
