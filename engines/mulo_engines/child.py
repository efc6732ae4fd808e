"""One task in a process of its own, which takes along what it leaves in memory and may die without harm."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, TypeVar, cast

from mulo_engines.errors import EngineError, OutOfMemory

__all__ = ["Progress", "Report", "peak_memory", "run_in_child"]

_T = TypeVar("_T")
_SHOWN = 2000


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a task is: `done` of `total` steps of a phase."""

    phase: str
    done: int
    total: int


Report = Callable[[Progress], None]
"""Takes progress, on whatever thread it is made."""


def run_in_child(what: str, task: Callable[[Report], _T], report: Report) -> _T:
    """The result of `task`, which a new process runs; task and result are pickled.

    The process ends with this one, whatever ends it. What it prints is shown only if it dies.

    Args:
        what: what errors call the task.
        task: a function of a module, or a `functools.partial` of one.
        report: told of the task's progress, on this thread.

    Raises:
        OutOfMemory: the system killed the process.
        EngineError: the process died otherwise.
        Exception: whatever the task raised.
    """
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    with TemporaryDirectory() as folder:
        output = Path(folder, "output")
        process = context.Process(target=_work, args=(task, sender, output), daemon=True)
        process.start()
        sender.close()
        try:
            return cast("_T", _receive(receiver, report))
        except EOFError:
            process.join()
            raise _death(what, process.exitcode, output) from None
        finally:
            process.kill()
            process.join()
            receiver.close()


def peak_memory() -> int:
    """The most bytes that this process has held at once."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _receive(receiver: Connection, report: Report) -> object:
    while True:
        message = receiver.recv()
        if isinstance(message, Progress):
            report(message)
            continue
        result, error = message
        if error is not None:
            raise error
        return result


def _work(task: Callable[[Report], Any], sender: Connection, output: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer.
    Thread(target=_end_with_parent, daemon=True).start()
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with suppress(BrokenPipeError):
        sender.send(_outcome(task, sender.send))


def _outcome(task: Callable[[Report], Any], report: Report) -> tuple[object, Exception | None]:
    try:
        return task(report), None
    except Exception as error:
        return None, error


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _death(what: str, code: int | None, output: Path) -> EngineError:
    said = output.read_text(errors="replace")[-_SHOWN:].strip() if output.exists() else ""
    if code == -signal.SIGKILL:
        return OutOfMemory(f"{what}: the process was killed, most likely for a lack of memory", fix="free memory")
    return EngineError(f"{what}: the process died", found=f"exit code {code}; {said or 'it printed nothing'}")
