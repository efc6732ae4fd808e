"""`engine.json`: what was compiled, of what, by what and for what machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mulo_engines.cuda.gpu import Gpu
from mulo_engines.errors import EngineStale
from mulo_engines.manifest import Count, FileRecord, Name

__all__ = [
    "RECORD_NAME",
    "EngineRecord",
    "EngineSetRecord",
    "GpuRecord",
    "ProfileRecord",
    "read_record",
    "write_record",
]

RECORD_NAME = "engine.json"
_SIZE_LIMIT = 16 * 2**20
Size = Annotated[int, Field(ge=0, le=2**63 - 1)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class GpuRecord(_Record):
    """The GPU that plans were built on; `driver` is the newest CUDA that its driver serves."""

    name: Name
    compute_capability: Name
    driver: Name

    @classmethod
    def of(cls, gpu: Gpu | None) -> GpuRecord | None:
        """The record of a GPU that is here."""
        return None if gpu is None else cls(name=gpu.name, compute_capability=gpu.compute_capability, driver=gpu.driver)


class ProfileRecord(_Record):
    """One optimisation profile: least, best and most by symbol of the graph's signature."""

    name: Name
    sizes: dict[Name, tuple[Size, Size, Size]]


class EngineRecord(_Record):
    """One graph's plan.

    Attributes:
        graph: the graph's name.
        source: its ONNX file in the bundle.
        weights: the files in the bundle that hold its weights.
        plan: the plan's file beside `engine.json`.
        slots: S, the length of the caches; None for a graph without any.
        profiles: what sizes the plan serves.
        in_place: the output that must be bound to the buffer of an input, by that input's name.
        attention: whether each attention is one kernel or several.
        activation_bytes: upper estimate of the memory beside weights, inputs and outputs.
        build_seconds: how long the build took.
        build_peak_bytes: the most host memory that the build held.
    """

    graph: Name
    source: FileRecord
    weights: tuple[FileRecord, ...]
    plan: FileRecord
    slots: Count | None
    profiles: tuple[ProfileRecord, ...]
    in_place: dict[Name, Name]
    attention: Literal["none", "fused", "decomposed"]
    activation_bytes: Size
    build_seconds: float
    build_peak_bytes: Size


class EngineSetRecord(_Record):
    """Everything that `engine.json` says.

    Attributes:
        schema_version: version of this format.
        backend: the builder.
        builder_version: version of its library.
        gpu: what the plans were built on; None where no GPU took part, and they are for every one the builder serves.
        precision: the bundle's.
        images: N, the most images that are decoded together.
        queries: the most queries of one pass.
        engines: the plans; a transformer may have a second one for a shorter cache.
    """

    schema_version: Literal[1] = 1
    backend: Name
    builder_version: Name
    gpu: GpuRecord | None
    precision: Name
    images: Count
    queries: Count
    engines: tuple[EngineRecord, ...]

    @model_validator(mode="after")
    def _has_one_plan_of_each_length(self) -> Self:
        plans = [(engine.graph, engine.slots) for engine in self.engines]
        twice = {plan for plan in plans if plans.count(plan) > 1}
        if twice:
            raise ValueError(f"one engine of each graph and cache length, unlike {min(twice, key=str)}")
        return self


def write_record(record: EngineSetRecord, folder: Path) -> None:
    """Write `engine.json` into `folder`."""
    (folder / RECORD_NAME).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_record(path: Path, rebuild: str) -> EngineSetRecord:
    """Read and check the record at `path`.

    Args:
        path: an `engine.json`.
        rebuild: the command that makes it anew.

    Raises:
        EngineStale: it is missing, no JSON, or a field is not as it should be.
    """
    if path.is_symlink() or not path.is_file():
        raise EngineStale(f"{path}: no such file", expected="the record of compiled engines", fix=rebuild)
    if path.stat().st_size > _SIZE_LIMIT:
        raise EngineStale(
            f"{path}: too large", found=path.stat().st_size, expected=f"at most {_SIZE_LIMIT} bytes", fix=rebuild
        )
    try:
        return EngineSetRecord.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise _refused(path, error, rebuild) from error


def _refused(path: Path, error: ValidationError, rebuild: str) -> EngineStale:
    first: Any = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    what = f"{path}: field {field!r} is refused" if field else f"{path}: not the record of compiled engines"
    return EngineStale(what, found=repr(first["input"])[:80], expected=first["msg"], fix=rebuild)
