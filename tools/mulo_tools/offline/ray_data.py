"""The images of a set, made by the workers of a Ray cluster.

Workers hold a pipeline each and hand PNG files back; the one process that writes them is the caller's. Which worker
makes an image does not matter, for its seed is given: when a worker dies, Ray starts another and has it make again what
was not handed back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import ray
from mulo_engines.errors import EngineError, MuloError
from ray.exceptions import RayError

from mulo_tools.offline.items import Item
from mulo_tools.offline.painter import Painter, PainterSettings

__all__ = ["paint_with_ray"]

_BLOCKS = 10_000
"""Most pieces that a set is cut into; a piece is what a dying worker loses."""


def paint_with_ray(
    items: Sequence[Item], settings: PainterSettings, workers: int, gpus: float
) -> Iterator[tuple[Item, bytes]]:
    """The PNG files of `items` as they are done, in any order, each once.

    Uses the cluster that RAY_ADDRESS names, the one that this process is connected to already, or one of its own.

    Args:
        items: the images.
        settings: what is the same for all of them.
        workers: how many processes make them.
        gpus: how many GPUs each has to itself; a fraction shares one.

    Raises:
        MuloError: an image could not be made.
        EngineError: Ray cannot go on.
    """
    connected = ray.is_initialized()
    if not connected:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    try:
        for row in _dataset(items, settings, workers, gpus).iter_rows():
            if row["error"] is not None:
                raise row["error"]
            yield items[row["index"]], row["png"]
    except RayError as error:
        raise EngineError(
            "Ray cannot go on", found=error, fix="the same command goes on where this one stopped"
        ) from error
    finally:
        if not connected:
            ray.shutdown()


def _dataset(items: Sequence[Item], settings: PainterSettings, workers: int, gpus: float) -> ray.data.Dataset:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    rows = [{"index": index, "item": item} for index, item in enumerate(items)]
    return ray.data.from_items(rows, override_num_blocks=min(len(rows), _BLOCKS)).map(
        _Worker,
        fn_constructor_args=(settings,),
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=max(settings.backend["threads"], 1),
        num_gpus=gpus,
    )


class _Worker:
    """A painter in a process of Ray's; its errors travel as values, which Ray leaves as they are."""

    def __init__(self, settings: PainterSettings) -> None:
        self._painter = Painter(settings)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"index": row["index"], "png": self._painter.paint(row["item"]), "error": None}
        except MuloError as error:
            return {"index": row["index"], "png": b"", "error": error}
