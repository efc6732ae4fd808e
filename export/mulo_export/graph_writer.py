"""Declare every graph of a bundle and write it, and the table of neighbours, beside the weights it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from mulo_engines.bundle import NEIGHBOUR_FILE
from safetensors.numpy import save

from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.codebook import neighbour_table, normalised_codebook
from mulo_export.describe import graph_file, rounding, weights_file
from mulo_export.graphs.builder import GraphBuilder
from mulo_export.graphs.condition import condition_graph
from mulo_export.graphs.decoder import decoder_graph
from mulo_export.graphs.eagle import eagle_graph
from mulo_export.graphs.feed import feed_graph
from mulo_export.graphs.sampler import sampler_graph
from mulo_export.graphs.ta_tok import FoldedTaTok
from mulo_export.graphs.token_upsampler import token_upsampler_graph
from mulo_export.graphs.transformer import transformer_graph
from mulo_export.graphs.upsampler import downsampler_graph, upsampler_graph
from mulo_export.graphs.vq import VqScope
from mulo_export.options import ExportOptions
from mulo_export.sources import Sources, TaTok, Transformer

__all__ = ["write_condition", "write_eagle", "write_graphs", "write_transformer"]


def write_graphs(folder: Path, sources: Sources, weights: Mapping[str, TensorFile], options: ExportOptions) -> None:
    """Write all graphs into `folder`; no weight but the codebook is read.

    Args:
        folder: the bundle's directory, where the weights of "ta_tok" lie already, if there are any.
        sources: what the models look like.
        weights: the weights of every role that has graphs as they lie, or will lie, in the bundle.
        options: how many codebook neighbours the sampler can pool over, and how drafts are enlarged.
    """
    for role, model in (("drafter", sources.drafter), ("target", sources.target)):
        hidden = role == "target" and sources.eagle is not None
        write_transformer(folder, role, model, weights[role], sources.ta_tok, hidden=hidden)
    if sources.eagle is not None:
        write_eagle(folder, sources.eagle, weights["eagle"], weights["target"])
    _write_vq(folder, sources, weights, options.steepness)
    neighbours = neighbour_table(normalised_codebook(weights["vq"]), options.pool_k_max)
    sampler_graph(neighbours, full=False).save(folder / graph_file("sampler"))
    sampler_graph(neighbours, full=True).save(folder / graph_file("sampler_full"))
    (folder / NEIGHBOUR_FILE).write_bytes(save({"neighbours": neighbours.astype(np.int32)}))
    feed_graph(guidance=True).save(folder / graph_file("feed"))


def write_transformer(
    folder: Path, role: str, model: Transformer, weights: TensorFile, ta_tok: TaTok | None, *, hidden: bool = False
) -> None:
    """Write the two graphs of a role's model, which tells its hidden states to a head where `hidden`."""
    transformer_graph(model.config, weights, weights_file(role), hidden=hidden).save(folder / graph_file(role))
    write_condition(folder, role, model, weights, ta_tok)


def write_eagle(folder: Path, eagle: Transformer, head: TensorFile, target: TensorFile) -> None:
    """Write the graph of the target's EAGLE head."""
    own, shared = (head, weights_file("eagle")), (target, weights_file("target"))
    eagle_graph(eagle.config, own, shared).save(folder / graph_file("eagle"))


def write_condition(folder: Path, role: str, model: Transformer, weights: TensorFile, ta_tok: TaTok | None) -> None:
    """Write the graph that turns a condition into the prefix of a role's model."""
    location = weights_file("ta_tok")
    folded = None if ta_tok is None else FoldedTaTok(ta_tok.config, read_tensor_file(folder / location), location)
    graph = condition_graph(model.config, weights, weights_file(role), folded)
    graph.save(folder / graph_file(f"{role}.condition"))


def _write_vq(folder: Path, sources: Sources, weights: Mapping[str, TensorFile], steepness: float) -> None:
    config, file, location = sources.vq.config, weights["vq"], weights_file("vq")
    _upsampler(sources, weights, steepness).save(folder / graph_file("upsampler"))
    downsampler_graph(config, file, location, sources.ratio).save(folder / graph_file("downsampler"))
    decoder_graph(config, file, location, rounding(sources.target.config)).save(folder / graph_file("decoder"))


def _upsampler(sources: Sources, weights: Mapping[str, TensorFile], steepness: float) -> GraphBuilder:
    config, location = sources.vq.config, weights_file("vq")
    if sources.upsampler is None:
        return upsampler_graph(config, weights["vq"], location, sources.ratio, steepness)
    scope = VqScope(GraphBuilder("upsampler"), config, weights["vq"], location)
    own = sources.upsampler.config, weights["upsampler"], weights_file("upsampler")
    return token_upsampler_graph(*own, scope)
