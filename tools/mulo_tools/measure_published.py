"""What it takes to export a pair of a published size, with random weights, and to draw an image of it.

python -m mulo_tools.measure_published export tar --precision int8 --out build/random-tar-512
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event as Signal

import click
import numpy as np
from mulo_engines.errors import Cancelled
from mulo_engines.manifest import MANIFEST_NAME, ConditionRecord, read_manifest
from mulo_export.bundle_writer import write_bundle
from mulo_export.family_defaults import PUBLISHED
from mulo_export.precision import Precision
from mulo_export.sources import Sources, read_source_tokenizer, read_source_transformer, read_sources
from mulo_runtime import AutoRegressive, Method, Pipeline, Request, TaTokCodes, TextFeatures
from mulo_runtime.defaults import default_method
from mulo_runtime.events import Event, RowsDone

from mulo_tools.memory_peak import watch_memory
from mulo_tools.synthetic import PRESETS, preset_config, write_random_checkpoint
from mulo_tools.synthetic_tar import LP, write_random_tar
from mulo_tools.synthetic_vq import write_random_tokenizer

__all__ = ["DrawCost", "ExportCost", "measure_draw", "measure_export", "measure_published_group", "random_sources"]

_GRIDS = {"drafter": 16, "target": 32}
_POOL_K_MAX = 64


@dataclass(frozen=True, slots=True)
class ExportCost:
    """What writing and checking a bundle took.

    Attributes:
        seconds: of wall clock.
        peak_bytes: the most memory beyond the page cache, that of the parity check's process included.
        bundle_bytes: of all files.
    """

    seconds: float
    peak_bytes: int
    bundle_bytes: int


@dataclass(frozen=True, slots=True)
class DrawCost:
    """What drawing took.

    Attributes:
        tokens: of the image that were drawn.
        seconds: until then, the condition included.
        peak_bytes: the most memory beyond the page cache.
        phases: seconds by phase, of a whole image.
    """

    tokens: int
    seconds: float
    peak_bytes: int
    phases: Mapping[str, float]


def random_sources(
    family: str, preset: str, folder: Path, *, drafter_preset: str | None = None, sparse: bool = False
) -> Sources:
    """Write checkpoints for images of 256 and 512 pixels into `folder`, and read them as the exporter does.

    Args:
        family: "tar", whose only published size is taken, or "llamagen", conditioned on text.
        preset: size of LlamaGen's target.
        folder: a folder without checkpoints.
        drafter_preset: size of its drafter; None is the target's.
        sparse: leave the transformers' weights holes of zeros, which take no disk and no time.
    """
    if family == "tar":
        return write_random_tar(folder, LP, **_GRIDS, dtype="F32", sparse=sparse)
    presets = {"drafter": drafter_preset or preset, "target": preset}
    for role, grid in _GRIDS.items():
        config = preset_config(presets[role], text=True, grid=grid)
        write_random_checkpoint(folder / f"{role}.safetensors", config, sparse=sparse)
    write_random_tokenizer(folder / "vq.safetensors")
    drafter, target = (read_source_transformer(folder / f"{role}.safetensors") for role in _GRIDS)
    return read_sources(drafter, target, read_source_tokenizer(folder / "vq.safetensors"))


def measure_export(sources: Sources, precision: Precision, bundle: Path) -> ExportCost:
    """Export `sources` as the bundle `bundle`, parity check included."""
    options = PUBLISHED[sources.target.config.family].options(precision, _POOL_K_MAX)
    started = time.perf_counter()
    with watch_memory() as peak:
        write_bundle(sources, options, bundle, lambda _: None)
    seconds = time.perf_counter() - started
    return ExportCost(seconds, peak.bytes, sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file()))


def measure_draw(bundle: Path, method: Method, *, threads: int, rows: int | None = None) -> DrawCost:
    """Draw an image of a random condition by `method`, or only its first `rows` rows of tokens."""
    stop, reached = Signal(), list[float]()

    def watch(event: Event) -> None:
        if isinstance(event, RowsDone) and event.rows == rows:
            reached.append(time.perf_counter())
            stop.set()

    with watch_memory() as peak, Pipeline.open(bundle, threads=threads, methods=[method], verify=False) as pipeline:
        grid = pipeline.bundle.manifest.target
        request = Request(_random_condition(pipeline.bundle.manifest.condition), seed=0, method=method)
        started = time.perf_counter()
        try:
            statistics = pipeline.generate(request, cancel=stop, on_event=watch).statistics
        except Cancelled:
            assert rows is not None
            return DrawCost(rows * grid.cols, reached[0] - started, peak.bytes, {})
    phases = {phase: usage.seconds for phase, usage in statistics.phases.items()}
    return DrawCost(grid.rows * grid.cols, statistics.seconds, peak.bytes, phases)


@click.group("measure-published")
def measure_published_group() -> None:
    """Measure what pairs of published sizes take, with random weights, for images of 512 pixels drafted at 256."""


@measure_published_group.command("export")
@click.argument("family", type=click.Choice(["tar", "llamagen"]))
@click.option("--preset", type=click.Choice([*PRESETS]), default="XL", show_default=True, help="Size of a LlamaGen.")
@click.option("--drafter-preset", type=click.Choice([*PRESETS]), help="Size of its drafter  [default: the target's]")
@click.option("--precision", type=click.Choice([precision.value for precision in Precision]), default="int8")
@click.option("--sparse", is_flag=True, help="Leave the weights zero, which takes no disk for the checkpoints.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The bundle.")
def export_command(
    family: str, preset: str, drafter_preset: str | None, precision: str, sparse: bool, out: Path
) -> None:
    """Write random checkpoints, which are deleted again, and measure their export."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent) as folder:
        sources = random_sources(family, preset, Path(folder), drafter_preset=drafter_preset, sparse=sparse)
        cost = measure_export(sources, Precision(precision), out)
    size, peak = cost.bundle_bytes / 2**20, cost.peak_bytes / 2**20
    click.echo(f"{cost.seconds:.0f} s, a bundle of {size:,.0f} MiB, {peak:,.0f} MiB of memory")


@measure_published_group.command("draw")
@click.argument("bundle", type=click.Path(file_okay=False, path_type=Path))
@click.option("--threads", type=click.IntRange(0), default=0, show_default=True, help="0 takes every core.")
def draw_command(bundle: Path, threads: int) -> None:
    """Draw two rows of tokens of an image one by one, and whole images by MuLo-SD at both ends of acceptance.

    Candidates of random weights mean nothing, so that a rule between the ends would say nothing either.
    """
    click.echo(_line("token by token", measure_draw(bundle, AutoRegressive(), threads=threads, rows=2)))
    own = default_method(read_manifest(bundle / MANIFEST_NAME))
    for what, tau in (("everything is accepted", 0.0), ("nothing is accepted", 2.0)):
        click.echo(_line(f"MuLo-SD, {what}", measure_draw(bundle, own.with_changes(tau=tau), threads=threads)))


def _random_condition(record: ConditionRecord) -> TaTokCodes | TextFeatures:
    rng = np.random.default_rng(0)
    if record.codes is not None:
        return TaTokCodes(rng.integers(record.codes, size=record.length))
    features = rng.standard_normal((record.length, record.feature_size or 0), np.float32)
    return TextFeatures(features, np.ones(record.length, np.bool_))


def _line(what: str, cost: DrawCost) -> str:
    phases = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in cost.phases.items())
    figures = f"{cost.tokens} tokens in {cost.seconds:.1f} s, {cost.peak_bytes / 2**20:,.0f} MiB of memory"
    return f"{what}: {figures}{f' ({phases})' if phases else ''}"


if __name__ == "__main__":
    measure_published_group()
