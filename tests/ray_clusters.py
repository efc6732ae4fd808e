"""Ray on this machine, with two workers."""

from __future__ import annotations

import gc
import logging
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray

__all__ = ["free_port", "ray_cluster", "worker_pids"]

_ATTEMPTS = 3
"""Ray gives its own processes 30 s to start, which a busy machine may need longer for."""
_OWN = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "include_dashboard": False}


@contextmanager
def ray_cluster() -> Iterator[None]:
    """Connect to the cluster that RAY_ADDRESS names, or else to one that ends with the block."""
    settings = {} if "RAY_ADDRESS" in os.environ else _OWN
    for attempt in range(_ATTEMPTS):
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **settings)
            break
        except Exception:
            ray.shutdown()
            if attempt == _ATTEMPTS - 1:
                raise
        _forget_processes()
    try:
        yield
    finally:
        ray.shutdown()


def _forget_processes() -> None:
    """Let go of the processes of a start that failed, which Ray has killed and not waited for, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def worker_pids(title: str) -> list[int]:
    """The processes of this cluster whose title begins with `title`, such as "ray::MapWorker"."""
    session = ray._private.worker.global_worker.node.get_session_dir_path()
    titled = [folder for folder in Path("/proc").glob("[0-9]*") if _read(folder / "cmdline").startswith(title)]
    return [int(folder.name) for folder in titled if session in _read(_parent(folder) / "cmdline")]


def _parent(process: Path) -> Path:
    status = dict(line.split(":", 1) for line in _read(process / "status").splitlines())
    return process.with_name(status.get("PPid", "0").strip())


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
