"""Golden outputs of LlamaGen's own transformers: the weights are rebuilt, the logits and greedy tokens were stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from golden.golden_weights import golden_weight
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from mulo_export.checkpoints.read_transformer import read_transformer
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.graphs.builder import GraphBuilder
from mulo_export.graphs.condition import condition_graph, feature_prefix
from mulo_export.graphs.precision import Weights
from mulo_export.graphs.transformer import transformer_graph
from mulo_export.reference.sequence import raster_mask, teacher_forced
from numpy.typing import NDArray
from safetensors.numpy import save_file

__all__ = [
    "TOLERANCE",
    "WEIGHTS",
    "GoldenModel",
    "Tensors",
    "golden_tensors",
    "load_graph",
    "open_golden",
    "read_golden",
]

Tensors = dict[str, NDArray[Any]]

TOLERANCE = 1e-4
"""Largest difference of a float32 logit."""

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True, slots=True)
class GoldenModel:
    """A model with golden weights, what it was given, and what it gave.

    Attributes:
        file: its weights, called `WEIGHTS`; its graphs are written beside them.
        config: its config.
        stored: tokens [1, n] that were fed, the condition `cond`, the prompt's `mask`, and the outputs.
        guidance_scale: of the greedy decoding.
    """

    file: TensorFile
    config: TransformerConfig
    stored: Tensors
    guidance_scale: float

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Visibility by position; the padding of a prompt is hidden."""
        return raster_mask(self.config, self.stored.get("mask"))

    def transformer(self) -> OnnxRuntimeEngine:
        """Its transformer graph, loaded."""
        graph = transformer_graph(self.config, self.file, WEIGHTS)
        return load_graph(graph, self.file.path.with_name("transformer.onnx"))

    def embeddings(self) -> NDArray[np.float32]:
        """What its condition graph makes of the stored condition: [2, P, D]."""
        if self.config.condition == "ta_tok":
            graph, name = _feature_graph(self.config, self.file), "features"
        else:
            graph = condition_graph(self.config, self.file, WEIGHTS)
            name = "text_features" if self.config.classes is None else "class_id"
        with load_graph(graph, self.file.path.with_name("condition.onnx")) as engine:
            return engine.run_once({name: self.stored["cond"]})["cond_embeds"]

    def step(self, embeddings: NDArray[np.float32], tokens: NDArray[np.int64]) -> Tensors:
        """Inputs of one step that predicts every one of `tokens` [1, n]."""
        return teacher_forced(self.config, embeddings, tokens, self.mask)

    def error(self, logits: NDArray[np.float32]) -> float:
        """Largest difference of the logits [2, n, V] for the stored tokens from the stored logits."""
        if "positions" in self.stored:
            logits = logits[:, self.stored["positions"]][:, :, self.stored["columns"]]
        return float(np.abs(logits - self.stored["logits"]).max())


def open_golden(name: str, folder: Path, change: Callable[[Tensors], None] | None = None) -> GoldenModel:
    """Write the weights of the golden model `name` into `folder`, changed by `change` where given, and open them."""
    stored, meta = read_golden(name)
    tensors = golden_tensors(meta)
    if change is not None:
        change(tensors)
    save_file(tensors, folder / WEIGHTS, _metadata(meta["args"]))
    file = read_tensor_file(folder / WEIGHTS)
    return GoldenModel(file, read_transformer(file), stored, meta["cfg_scale"])


def read_golden(name: str) -> tuple[Tensors, dict[str, Any]]:
    """The stored arrays of the golden model `name`, and its arguments, shapes and seed."""
    with np.load(Path(__file__).parent / "golden" / f"{name}.npz") as archive:
        stored = {key: archive[key] for key in archive.files}
    return stored, json.loads(str(stored.pop("meta")))


def golden_tensors(meta: dict[str, Any]) -> Tensors:
    """The weights of a golden model."""
    return {key: golden_weight(key, tuple(shape), meta["seed"]) for key, shape in meta["shapes"].items()}


def _metadata(arguments: dict[str, Any]) -> dict[str, str]:
    """What weights do not tell: for LlamaGen its heads and grid, for Tar the arguments that its files hold."""
    if "block_size" in arguments:
        arguments = {"n_head": arguments["n_head"], "grid": round(arguments["block_size"] ** 0.5)}
    return {name: str(value) for name, value in arguments.items()}


def _feature_graph(config: TransformerConfig, file: TensorFile) -> GraphBuilder:
    """The part of Tar's condition graph behind TA-Tok, from features [1, P, E], which the golden condition is."""
    graph = GraphBuilder("condition")
    features = graph.input("features", "float32", [1, config.prefix, config.feature_size or 0])
    weights = Weights(graph, file, WEIGHTS, typed_by="tok_embeddings.weight")
    flat = graph.op("Reshape", features, graph.constant([-1, config.feature_size or 0], "int64"))
    prefix = feature_prefix(graph, weights, flat)
    shape = graph.constant([2, config.prefix, config.dim], "int64")
    graph.output("cond_embeds", graph.op("Reshape", prefix, shape), "float32", [2, config.prefix, config.dim])
    return graph


def load_graph(graph: GraphBuilder, path: Path) -> OnnxRuntimeEngine:
    """Save `graph` at `path`, where it finds its weights, and load it on one thread."""
    graph.save(path)
    return OnnxRuntimeEngine.load(path, name=path.stem, threads=1)
