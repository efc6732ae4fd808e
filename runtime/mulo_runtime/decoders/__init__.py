"""The methods that decode an image, over the same models and the same cache log."""

from collections.abc import Iterator

from mulo_runtime.decoders.adaptive_zipar import decode_adaptive_zipar
from mulo_runtime.decoders.chain import decode_chain
from mulo_runtime.decoders.jacobi import decode_jacobi
from mulo_runtime.decoders.job import Job, Outcome
from mulo_runtime.decoders.mulo_sd import decode_mulo_sd
from mulo_runtime.decoders.raster import decode_auto_regressive, decode_zipar
from mulo_runtime.decoders.row_jacobi import decode_row_jacobi
from mulo_runtime.decoders.tree import decode_tree
from mulo_runtime.events import Event
from mulo_runtime.lane import Lane
from mulo_runtime.settings import GSD, PJD, SJD, AdaptiveZipAR, AutoRegressive, Method, MuloSD, ZipAR

__all__ = ["decode"]


def decode(lane: Lane, job: Job, outcome: Outcome, method: Method) -> Iterator[Event]:
    """Decode `job` by `method` into `outcome`, telling what happens."""
    if isinstance(method, AutoRegressive):
        return decode_auto_regressive(lane, job, outcome)
    if isinstance(method, ZipAR):
        return decode_zipar(lane, job, outcome, method)
    if isinstance(method, SJD | GSD):
        return decode_jacobi(lane, job, outcome, method)
    if isinstance(method, AdaptiveZipAR):
        return decode_adaptive_zipar(lane, job, outcome, method)
    if isinstance(method, PJD):
        return decode_row_jacobi(lane, job, outcome, method)
    if isinstance(method, MuloSD):
        return decode_mulo_sd(lane, job, outcome, method)
    if method.tree == "chain":
        return decode_chain(lane, job, outcome, method)
    return decode_tree(lane, job, outcome, method)
