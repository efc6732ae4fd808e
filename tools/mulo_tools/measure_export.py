"""How long the graphs of a published size take to declare and write, and how much memory that needs."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from mulo_export.graph_writer import write_graphs
from mulo_export.sources import Sources, read_source_tokenizer, read_source_transformer, read_sources

from mulo_tools.synthetic import PRESETS, preset_config, write_random_checkpoint
from mulo_tools.synthetic_vq import write_random_tokenizer

__all__ = ["ExportCost", "measure_export", "measure_export_command"]

_DRAFTER_GRID, _TARGET_GRID = 16, 32
_POOL_K_MAX = 64


@dataclass(frozen=True, slots=True)
class ExportCost:
    """What writing all graphs of a bundle took, its weights apart.

    Attributes:
        parameters: of the target.
        seconds: of wall clock.
        processor_seconds: of this process, all threads together.
        peak_bytes: by which the resident memory grew at its largest.
        graph_bytes: of all graph files.
    """

    parameters: int
    seconds: float
    processor_seconds: float
    peak_bytes: int
    graph_bytes: int


def measure_export(preset: str, folder: Path) -> ExportCost:
    """Write the graphs of a class-conditional pair of the size `preset` into the empty `folder`.

    The checkpoints are written there too; those of the transformers are holes of zeros, which take no disk.
    """
    sources = _sources(preset, folder)
    graphs = folder / "graphs"
    graphs.mkdir()
    _forget_peak()
    before, started, processor = _memory("VmRSS"), time.perf_counter(), time.process_time()
    write_graphs(graphs, sources, sources.checkpoints, _POOL_K_MAX)
    return ExportCost(
        parameters=sum(record.size for record in sources.target.file.tensors.values()) // 4,
        seconds=time.perf_counter() - started,
        processor_seconds=time.process_time() - processor,
        peak_bytes=_memory("VmHWM") - before,
        graph_bytes=sum(path.stat().st_size for path in graphs.iterdir()),
    )


@click.command("measure-export")
@click.option("--preset", type=click.Choice([*PRESETS]), default="XL", show_default=True, help="Size of both models.")
def measure_export_command(preset: str) -> None:
    """Measure the export of random checkpoints of a published size, copying and hashing apart."""
    with TemporaryDirectory() as folder:
        cost = measure_export(preset, Path(folder))
    click.echo(f"{cost.parameters / 1e6:,.0f} M parameters")
    click.echo(f"{cost.seconds:.2f} s, {cost.processor_seconds:.2f} s of the processor")
    click.echo(f"{cost.peak_bytes / 2**20:,.0f} MiB of memory, {cost.graph_bytes / 2**20:,.1f} MiB of graphs")


def _sources(preset: str, folder: Path) -> Sources:
    grids = {"drafter": _DRAFTER_GRID, "target": _TARGET_GRID}
    for role, grid in grids.items():
        config = preset_config(preset, text=False, grid=grid)
        write_random_checkpoint(folder / f"{role}.safetensors", config, sparse=True)
    write_random_tokenizer(folder / "vq.safetensors")
    drafter, target = (read_source_transformer(folder / f"{role}.safetensors", grid=None, heads=None) for role in grids)
    return read_sources(drafter, target, read_source_tokenizer(folder / "vq.safetensors"))


def _forget_peak() -> None:
    """Let the kernel's high-water mark start from the memory that is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def _memory(field: str) -> int:
    """A field of this process's status, in bytes."""
    status = Path("/proc/self/status").read_text()
    match = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    if match is None:
        raise OSError(f"/proc/self/status has no {field}")
    return int(match[1]) * 1024


if __name__ == "__main__":
    measure_export_command()
