"""The machine that measurements were made on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from mulo_engines.onnxruntime.engine import VERSION
from pydantic import BaseModel, ConfigDict

__all__ = ["Machine", "describe_machine"]


class Machine(BaseModel):
    """Where a bench or a profile ran.

    Attributes:
        processor: its model.
        cores: cores of the machine.
        threads: threads of a timed engine call.
        system: operating system and architecture.
        python: version.
        onnxruntime: version.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    processor: str
    cores: int
    threads: int
    system: str
    python: str
    onnxruntime: str


def describe_machine(threads: int) -> Machine:
    """This machine."""
    cores = os.cpu_count() or 1
    return Machine(
        processor=_processor(),
        cores=cores,
        threads=threads or cores,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        onnxruntime=VERSION,
    )


def _processor() -> str:
    """The processor's model as Linux tells it, else as Python does."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
