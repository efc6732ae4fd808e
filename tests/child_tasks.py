"""Tasks for a process of its own, which finds them by the name of this module."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from mulo_engines.child import Progress, Report
from mulo_engines.errors import ShapeError


def add(first: int, second: int, report: Report) -> int:
    for done in (1, 2):
        report(Progress("adding", done, 2))
    return first + second


def refuse(report: Report) -> None:
    del report
    raise ShapeError("refused", found=7, expected=8)


def be_killed(report: Report) -> None:
    del report
    os.kill(os.getpid(), signal.SIGKILL)


def die(report: Report) -> None:
    del report
    os.write(2, b"last words")
    os._exit(3)


def sleep_after_writing(path: str, report: Report) -> None:
    del report
    Path(path).write_text(str(os.getpid()))
    time.sleep(3600)
