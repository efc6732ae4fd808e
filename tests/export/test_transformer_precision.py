"""Whatever the weights' type, norms and rotations compute in float32, and a norm is rounded before its weight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from golden_models import WEIGHTS, Tensors, open_golden
from mulo_export.checkpoints.read_transformer import read_transformer
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.graphs.condition import condition_graph
from mulo_export.graphs.transformer import transformer_graph
from mulo_export.reference.sequence import empty_caches
from mulo_export.weights import convert_weights
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import save_file

HALF_TOLERANCE = 2e-2
DIM = 64


def _half(tensors: Tensors) -> None:
    tensors.update({name: value.astype(np.float16) for name, value in tensors.items()})


def _half_but_norms(tensors: Tensors) -> None:
    tensors.update({name: value.astype(np.float16) for name, value in tensors.items() if value.ndim > 1})


@pytest.mark.parametrize("name", ["llamagen_c2i", "llamagen_t2i"])
@pytest.mark.parametrize("change", [_half, _half_but_norms])
def test_float16_graphs_reproduce_the_golden_logits_to_their_precision(
    name: str, change: Callable[[Tensors], None], tmp_path: Path
) -> None:
    model = open_golden(name, tmp_path, change)
    embeddings = model.embeddings()
    with model.transformer() as engine:
        outputs = engine.run_once(model.step(embeddings, model.stored["tokens"]))
    assert embeddings.dtype == outputs["k_cache_out.0"].dtype == np.float16
    assert outputs["logits"].dtype == np.float32
    assert model.error(outputs["logits"]) < HALF_TOLERANCE


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
@pytest.mark.parametrize("name", ["llamagen_c2i", "llamagen_t2i"])
def test_low_precision_graphs_are_valid_and_norm_and_rotate_in_float32(name: str, dtype: str, tmp_path: Path) -> None:
    golden = open_golden(name, tmp_path)
    location = f"{dtype}.safetensors"
    convert_weights(golden.file, tmp_path / location, dtype, lambda _: None)
    file = read_tensor_file(tmp_path / location)
    for build in (transformer_graph, condition_graph):
        path = tmp_path / f"{build.__name__}.onnx"
        build(golden.config, file, location).save(path)
        onnx.checker.check_model(path, full_check=True)
    types = _value_types(onnx.load(tmp_path / "transformer_graph.onnx", load_external_data=False))
    assert types["RMSNormalization"] == types["RotaryEmbedding"] == {onnx.TensorProto.FLOAT}
    low = onnx.TensorProto.FLOAT16 if dtype == "F16" else onnx.TensorProto.BFLOAT16
    assert types["Gemm"] == types["Attention"] == types["TensorScatter"] == {low}


def _value_types(model: onnx.ModelProto) -> dict[str, set[int]]:
    """The types of the outputs of all nodes, by operator."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    known = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
    types: dict[str, set[int]] = {}
    for node in graph.node:
        types.setdefault(node.op_type, set()).update(known[name] for name in node.output)
    return types


def test_a_norm_is_rounded_before_its_weight_is_applied(tmp_path: Path) -> None:
    """A model whose blocks add nothing and whose output layer is the identity shows its last norm bit by bit."""
    tensors = _transparent_tensors()
    save_file(tensors, tmp_path / WEIGHTS, {"n_head": "2", "grid": "8"})
    file = read_tensor_file(tmp_path / WEIGHTS)
    config = read_transformer(file)
    tokens = np.arange(DIM)[None]
    inputs = {
        "cond_embeds": np.zeros((1, 0, DIM), np.float16),
        "token_ids": tokens,
        "position_ids": tokens + 1,
        "write_index": np.zeros(1, np.int64),
        "attn_mask": np.eye(DIM, dtype=np.bool_)[None, None],
        "logit_rows": tokens,
        **empty_caches(config, 1, DIM, "float16"),
    }
    transformer_graph(config, file, WEIGHTS).save(tmp_path / "transformer.onnx")
    # ONNX Runtime keeps float32 between casts where it can; the standard's own evaluator rounds where the graph does.
    logits = ReferenceEvaluator(str(tmp_path / "transformer.onnx")).run(["logits"], inputs)[0][0]
    exact = _normed(tensors["tok_embeddings.weight"].astype(np.float32))
    weight = tensors["norm.weight"]
    assert np.mean(logits == exact.astype(np.float16) * weight) > 0.99
    assert np.mean(logits == (exact * weight.astype(np.float32)).astype(np.float16)) < 0.9


def _normed(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-5))


def _transparent_tensors() -> Tensors:
    rng = np.random.default_rng(0)
    shapes = {
        "layers.0.attention.wqkv.weight": (3 * DIM, DIM),
        "layers.0.attention.wo.weight": (DIM, DIM),
        "layers.0.feed_forward.w1.weight": (DIM, DIM),
        "layers.0.feed_forward.w3.weight": (DIM, DIM),
        "layers.0.feed_forward.w2.weight": (DIM, DIM),
        "layers.0.attention_norm.weight": (DIM,),
        "layers.0.ffn_norm.weight": (DIM,),
        "cls_embedding.embedding_table.weight": (2, DIM),
    }
    return {name: np.zeros(shape, np.float16) for name, shape in shapes.items()} | {
        "tok_embeddings.weight": rng.standard_normal((DIM, DIM)).astype(np.float16),
        "norm.weight": (1 + 0.1 * rng.standard_normal(DIM)).astype(np.float16),
        "output.weight": np.eye(DIM, dtype=np.float16),
    }
