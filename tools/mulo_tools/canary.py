"""`mulo canary`: the baseline that a bundle's warm-up is compared with."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from mulo_engines.manifest import MANIFEST_NAME, CanaryRecord, Manifest, write_manifest
from mulo_runtime import Pipeline
from mulo_runtime.canary import check_canary, read_canary

__all__ = ["canary_command"]


@click.command("canary")
@click.argument("bundle", type=click.Path(file_okay=False, path_type=Path))
@click.option("--record", is_flag=True, help="Write what is found into the bundle as its baseline.")
@click.option("--threads", type=click.IntRange(0), default=0, show_default=True, help="0 takes every core.")
def canary_command(bundle: Path, record: bool, threads: int) -> None:
    """Make a few images of fixed seeds from the bundle in the folder BUNDLE, and tell how they are accepted.

    A warm-up does the same and refuses engines that lie far from the recorded baseline, as this command does (exit
    code 4) where it does not record.
    """
    with Pipeline.open(bundle, threads=threads) as pipeline:
        found = read_canary(pipeline.generate, pipeline.examples)
        manifest = pipeline.bundle.manifest
    if not record and manifest.canary is not None:
        check_canary(found, manifest.canary)
    if record:
        _write(manifest.model_copy(update={"canary": found}), bundle)
    click.echo(_summary(found, manifest.canary, recorded=record))


def _write(manifest: Manifest, bundle: Path) -> None:
    """Replace the manifest whole."""
    with TemporaryDirectory(dir=bundle, prefix=".canary-") as folder:
        write_manifest(manifest, Path(folder))
        with (Path(folder) / MANIFEST_NAME).open("rb") as file:
            os.fsync(file.fileno())
        (Path(folder) / MANIFEST_NAME).replace(bundle / MANIFEST_NAME)


def _summary(found: CanaryRecord, baseline: CanaryRecord | None, *, recorded: bool) -> str:
    told = f"accepted share {found.accepted_share:.3f}, pooled mass {found.pooled_mass:.3f} over {found.images} images"
    if recorded:
        return f"{told}; recorded"
    if baseline is None:
        return f"{told}; the bundle has no baseline, --record writes it"
    return f"{told}; baseline {baseline.accepted_share:.3f} and {baseline.pooled_mass:.3f}"
