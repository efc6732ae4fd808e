"""Records of compiled engines whose plans are a few bytes, for what reads them but runs none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mulo_engines.bundle import Bundle, describe_file
from mulo_engines.cuda.gpu import Gpu
from mulo_engines.tensorrt.engine_set import set_folder
from mulo_engines.tensorrt.record import EngineRecord, EngineSetRecord, GpuRecord, ProfileRecord, write_record

__all__ = ["BACKEND", "H200", "VERSION", "write_engine_set"]

BACKEND, VERSION = "tensorrt", "11.4.0.106"
H200 = Gpu("NVIDIA H200", "9.0", "13.0", 2**37)


def write_engine_set(bundle: Bundle, root: Path, gpu: Gpu | None = H200, **changes: Any) -> Path:
    """Write a plan of every graph of `bundle` and their record, fields of which `changes` replaces."""
    folder = set_folder(root, BACKEND, VERSION, gpu)
    folder.mkdir(parents=True)
    files = {file.path: file for file in bundle.manifest.files}
    engines = []
    for graph in bundle.manifest.graphs:
        (folder / f"{graph.name}.plan").write_bytes(graph.name.encode())
        engines.append(
            EngineRecord(
                graph=graph.name,
                source=files[graph.file],
                weights=tuple(files[path] for path in graph.weights),
                plan=describe_file(folder, f"{graph.name}.plan"),
                slots=208 if graph.name == "target" else None,
                profiles=(ProfileRecord(name="all", sizes={"N": (1, 1, 1)}),),
                in_place={},
                attention="none",
                activation_bytes=3 * 2**20,
                build_seconds=1.0,
                build_peak_bytes=2**20,
            )
        )
    fields: dict[str, Any] = {
        "backend": BACKEND,
        "builder_version": VERSION,
        "gpu": GpuRecord.of(gpu),
        "precision": bundle.manifest.precision,
        "images": 1,
        "queries": 64,
        "engines": tuple(engines),
    }
    write_record(EngineSetRecord(**(fields | changes)), folder)
    return folder
