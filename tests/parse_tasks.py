"""What NVIDIA's parser makes of graphs, for a process of its own, which finds it by the name of this module."""

from __future__ import annotations

from collections.abc import Sequence

from mulo_engines.child import Report
from mulo_engines.tensorrt.binding import load_binding
from mulo_engines.tensorrt.build import BuildJob
from mulo_engines.tensorrt.messages import collecting_logger
from mulo_engines.tensorrt.network import check_network, parse_network


def parse(jobs: Sequence[BuildJob], report: Report) -> list[str]:
    """Parse and check the graphs of `jobs` as their builds do first; the names of those that pass."""
    del report
    library = load_binding("tensorrt-rtx").library
    logger = collecting_logger(library, [])
    builder = library.Builder(logger)
    for job in jobs:
        network = parse_network(library, builder, logger, graph=job.graph, model=job.model, path=job.path)
        check_network(library, network, job.graph, job.signature)
    return [job.graph for job in jobs]
