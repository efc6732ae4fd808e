"""The GPU of this machine, if there is one; the only module that imports `cuda`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

__all__ = ["Gpu", "detect_gpu"]


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU and what drives it.

    Attributes:
        name: the product's name.
        compute_capability: such as "9.0".
        driver: the newest CUDA that the driver serves, such as "13.0".
        free_bytes: memory that nothing uses.
    """

    name: str
    compute_capability: str
    driver: str
    free_bytes: int


def detect_gpu(index: int = 0) -> Gpu | None:
    """GPU number `index`, or None where there is no such GPU, no driver, or nothing installed that asks it."""
    if find_spec("cuda") is None or find_spec("cuda.core") is None:
        return None
    from cuda.bindings import driver
    from cuda.core import Device

    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:  # The driver's library is not there.
        return None
    if status != driver.CUresult.CUDA_SUCCESS:
        return None
    _, count = driver.cuDeviceGetCount()
    if index >= count:
        return None
    device = Device(index)
    device.set_current()
    _, version = driver.cuDriverGetVersion()
    _, free, _ = driver.cuMemGetInfo()
    major, minor = device.compute_capability
    return Gpu(device.name, f"{major}.{minor}", f"{version // 1000}.{version % 1000 // 10}", free)
