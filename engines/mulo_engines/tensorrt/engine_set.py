"""The compiled engines of a bundle for one builder and machine: where they lie, and whether they may be loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mulo_engines.bundle import Bundle, describe_file
from mulo_engines.cuda.gpu import Gpu
from mulo_engines.errors import EngineStale
from mulo_engines.manifest import FileRecord
from mulo_engines.tensorrt.record import RECORD_NAME, EngineRecord, EngineSetRecord, GpuRecord, read_record

__all__ = ["EngineSet", "engines_root", "open_engine_set", "read_records", "set_folder"]

Fault = tuple[str, object, object]
"""A field, what it is, and what it must be."""


@dataclass(frozen=True, slots=True)
class EngineSet:
    """Engines that were verified.

    Attributes:
        path: their folder.
        record: what they are.
    """

    path: Path
    record: EngineSetRecord

    def lengths(self, graph: str) -> tuple[int, ...]:
        """S of every plan of `graph`, the longest first; none where it has no cache."""
        found = (engine.slots for engine in self.record.engines if engine.graph == graph)
        return tuple(sorted((slots for slots in found if slots is not None), reverse=True))

    def engine(self, graph: str, slots: int | None = None) -> EngineRecord:
        """The engine of `graph`, which the bundle has, for a cache of `slots`; None takes the longest."""
        wanted = slots if slots is not None else next(iter(self.lengths(graph)), None)
        return next(engine for engine in self.record.engines if (engine.graph, engine.slots) == (graph, wanted))

    def plan(self, graph: str, slots: int | None = None) -> Path:
        """The plan of `graph`, likewise."""
        return self.path / self.engine(graph, slots).plan.path


def engines_root(bundle: Path, given: Path | None = None) -> Path:
    """Where the engines of `bundle` lie: inside it, unless the user says otherwise."""
    return bundle / "engines" if given is None else given


def set_folder(root: Path, backend: str, version: str, gpu: Gpu | None) -> Path:
    """The folder below `root` of what this builder makes for this machine."""
    machine = "any-gpu" if gpu is None else f"{gpu.name}-sm{gpu.compute_capability}"
    return root / re.sub(r"[^a-z0-9.]+", "-", f"{backend}-{version}-{machine}".lower())


def open_engine_set(bundle: Bundle, *, backend: str, version: str, gpu: Gpu | None, root: Path) -> EngineSet:
    """Verify the engines of `bundle` for this builder and machine; no plan is loaded.

    Engines that were built without a GPU are taken on every machine.

    Args:
        bundle: the bundle, opened.
        backend: the builder, which also runs its plans.
        version: version of its library.
        gpu: the GPU of this machine.
        root: where the bundle's engines lie.

    Raises:
        EngineStale: there are none, or they are of another bundle, builder or machine, or altered; all faults are
            listed with both sides, and the command that builds them.
    """
    rebuild = f"mulo-export build {bundle.path} --backend {backend}"
    if root != engines_root(bundle.path):
        rebuild += f" --engines {root}"
    folders = [set_folder(root, backend, version, gpu), set_folder(root, backend, version, None)]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        others = ", ".join(sorted(path.parent.name for path in root.glob(f"*/{RECORD_NAME}")))
        raise EngineStale(
            f"{bundle.path}: nothing was compiled for this builder and machine",
            found=others or "no engines",
            expected=" or ".join(folder.name for folder in dict.fromkeys(folders)),
            fix=rebuild,
        )
    record = read_record(folder / RECORD_NAME, rebuild)
    faults = [*_machine_faults(record, backend, version, gpu), *_bundle_faults(record, bundle)]
    faults += [fault for engine in record.engines for fault in _plan_faults(folder, engine.plan)]
    if faults:
        raise EngineStale(
            f"{folder}: the engines are not those of this bundle, builder and machine",
            found="; ".join(f"{field} {found}" for field, found, _ in faults),
            expected="; ".join(f"{field} {wanted}" for field, _, wanted in faults),
            fix=rebuild,
        )
    return EngineSet(folder, record)


def read_records(root: Path) -> Mapping[str, EngineSetRecord]:
    """The records of all engines below `root` by folder name; plans are not looked at."""
    paths = sorted(root.glob(f"*/{RECORD_NAME}"))
    return {path.parent.name: read_record(path, "build the engines again with `mulo-export build`") for path in paths}


def _machine_faults(record: EngineSetRecord, backend: str, version: str, gpu: Gpu | None) -> Iterator[Fault]:
    if record.backend != backend:
        yield "backend", record.backend, backend
    if record.builder_version != version:
        yield "builder_version", record.builder_version, version
    if record.gpu is None:
        return
    if record.gpu != (present := GpuRecord.of(gpu)):
        yield "gpu", record.gpu, present or "none"


def _bundle_faults(record: EngineSetRecord, bundle: Bundle) -> Iterator[Fault]:
    manifest = bundle.manifest
    if record.precision != manifest.precision:
        yield "precision", record.precision, manifest.precision
    built, wanted = {engine.graph for engine in record.engines}, {graph.name for graph in manifest.graphs}
    if built != wanted:
        yield "graphs", ", ".join(sorted(built)), ", ".join(sorted(wanted))
    files = {file.path: file for file in manifest.files}
    for engine in record.engines:
        for file in (engine.source, *engine.weights):
            if files.get(file.path) != file:
                yield f"source of {engine.graph}", file, files.get(file.path, f"no file {file.path}")


def _plan_faults(folder: Path, plan: FileRecord) -> Iterator[Fault]:
    path = folder / plan.path
    if path.is_symlink() or not path.is_file():
        yield "plan", f"no file {plan.path}", plan
    elif (found := describe_file(folder, plan.path)) != plan:
        yield "plan", found, plan
