"""The parity gate: no bundle is published whose graphs do not compute what their references compute."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from mulo_engines.errors import CheckpointError, ParityError
from mulo_engines.manifest import ParityRecord

from mulo_export.options import ExportOptions
from mulo_export.parity.child import measure
from mulo_export.sources import Sources

__all__ = ["check_parity"]


def check_parity(folder: Path, sources: Sources, options: ExportOptions) -> list[ParityRecord]:
    """Compare every graph of the unpublished bundle in `folder` with its reference on random inputs.

    The graphs run in a process of their own, which takes along whatever memory the engines keep, and whose death by
    a lack of it is an answer too.

    Raises:
        CheckpointError: a weight is not finite, and a graph differs for it.
        ParityError: a graph differs by more than its tolerance, all of them listed, or the process died.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            records = pool.submit(measure, folder, sources, options).result()
        except BrokenProcessPool as error:
            raise ParityError(
                "the process that compared the graphs with their references died",
                fix="free memory; --skip-parity publishes without the comparison and says so in the manifest",
            ) from error
    failed = [record for record in records if record.value > record.tolerance]
    if failed:
        _refuse_damaged(sources)
        raise ParityError(
            "graphs differ from their references, so that nothing was published",
            found="; ".join(f"{record.graph}: {record.metric} {record.value:.3g}" for record in failed),
            expected="; ".join(f"{record.graph}: at most {record.tolerance:.3g}" for record in failed),
            fix="report this with the versions of mulo and onnxruntime; another --precision may pass",
        )
    return records


def _refuse_damaged(sources: Sources) -> None:
    """Blame a checkpoint whose weights are not finite: what is copied as it is was not looked at before."""
    damaged = [
        f"{file.path}: {name}"
        for file in sources.checkpoints.values()
        for name in file.tensors
        if not all(np.isfinite(piece).all() for piece in file.pieces(name))
    ]
    if damaged:
        raise CheckpointError(
            "weights are not finite, so that nothing was published",
            found="; ".join(damaged),
            fix="get the checkpoint again; training may have diverged",
        )
