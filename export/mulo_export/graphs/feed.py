"""The token log of a device: sampled tokens feed the next step without passing through the host."""

from __future__ import annotations

from mulo_export.graphs.builder import GraphBuilder

__all__ = ["feed_graph"]


def feed_graph(guidance: bool) -> GraphBuilder:
    """The graph that writes sampled tokens into the log and reads the next step's tokens from it.

    Inputs: token_log [N, L], new_tokens [N, R], write_positions [N, R], read_positions [N, Q], all int64; and
    probability [N, R], witness [N], float32. What must not be kept is written to a spare position of the log; elsewhere
    the write positions of an image differ.
    Outputs: token_log_out [N, L]; token_ids [B, Q], twice the images' tokens with `guidance`, else once; and
    witness_out [N], the witness plus the probabilities: not finite from the first pass on whose logits were not.
    """
    graph = GraphBuilder("feed")
    log = graph.input("token_log", "int64", ["N", "L"])
    new_tokens = graph.input("new_tokens", "int64", ["N", "R"])
    write_positions = graph.input("write_positions", "int64", ["N", "R"])
    read_positions = graph.input("read_positions", "int64", ["N", "Q"])
    probability = graph.input("probability", "float32", ["N", "R"])
    witness = graph.input("witness", "float32", ["N"])
    written = graph.op("ScatterElements", log, write_positions, new_tokens, name="token_log_out", axis=1)
    tokens = graph.op("GatherElements", written, read_positions, axis=1)
    halves = [tokens, tokens] if guidance else [tokens]
    total = graph.op("ReduceSum", probability, graph.constant([1], "int64"), keepdims=0)
    graph.output("token_log_out", written, "int64", ["N", "L"])
    graph.output("token_ids", graph.op("Concat", *halves, name="token_ids", axis=0), "int64", ["B", "Q"])
    graph.output("witness_out", graph.op("Add", witness, total, name="witness_out"), "float32", ["N"])
    return graph
