"""What mulo runs on: the versions that it is made for, held against those that are found when a backend is opened."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from mulo_engines.cuda.gpu import Gpu
from mulo_engines.errors import UnsupportedVersion

__all__ = ["SUPPORTED", "Supported", "check_gpu", "check_python", "check_version", "supported_table"]


@dataclass(frozen=True, slots=True)
class Supported:
    """One thing that mulo depends on.

    Attributes:
        name: what people call it.
        versions: the versions that mulo is made for, as pip writes them.
        told_by: where a user reads the version off.
        fix: what to do about another one.
    """

    name: str
    versions: str
    told_by: str
    fix: str


SUPPORTED: Mapping[str, Supported] = {
    "python": Supported("Python", ">=3.11,<3.15", "python --version", "make the environment with another Python"),
    "onnxruntime": Supported(
        "ONNX Runtime", ">=1.31,<2", "mulo inspect", "pip install 'mulo[cpu]', or 'mulo[gpu]' for a GPU"
    ),
    "tensorrt": Supported("TensorRT", ">=11,<12", "pip show tensorrt", "pip install 'mulo[tensorrt]'"),
    "tensorrt-rtx": Supported("TensorRT-RTX", ">=1.7,<2", "pip show tensorrt-rtx", "pip install 'mulo[tensorrt-rtx]'"),
    "driver": Supported(
        "CUDA of the NVIDIA driver", ">=13.0", "nvidia-smi", "install a driver of NVIDIA's branch 580 or newer"
    ),
    "gpu": Supported(
        "GPU, compute capability", ">=8.0", "nvidia-smi --query-gpu=compute_cap --format=csv", "use another GPU"
    ),
}
"""Everything that is checked, by the name it is asked for; the extras of pyproject.toml ask for the same versions."""


def check_version(key: str, found: str) -> None:
    """Refuse a version that mulo is not made for.

    Args:
        key: of `SUPPORTED`.
        found: the version that is there.

    Raises:
        UnsupportedVersion: it is none of the supported ones, or no version at all.
    """
    supported = SUPPORTED[key]
    try:
        fits = SpecifierSet(supported.versions).contains(Version(found), prereleases=True)
    except InvalidVersion:
        fits = False
    if not fits:
        raise UnsupportedVersion(
            f"mulo is not made for this version of {supported.name}",
            found=found,
            expected=supported.versions,
            fix=supported.fix,
        )


def check_python() -> None:
    """Refuse the running Python if it is not supported.

    Raises:
        UnsupportedVersion: it is not.
    """
    check_version("python", platform.python_version())


def check_gpu(gpu: Gpu) -> None:
    """Refuse a GPU that is too old, or whose driver is.

    Raises:
        UnsupportedVersion: it is.
    """
    check_version("gpu", gpu.compute_capability)
    check_version("driver", gpu.driver)


def supported_table() -> str:
    """The table of the README, in Markdown."""
    rows = [("", "versions", "told by"), ("---",) * 3]
    rows += [(each.name, each.versions.replace(",", ", "), f"`{each.told_by}`") for each in SUPPORTED.values()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
