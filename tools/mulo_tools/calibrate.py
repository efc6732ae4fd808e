"""`mulo calibrate`: how large what enters the linear layers is while real images are drawn.

NVIDIA's modelopt calibrates, too, but on single runs of a model, and its extra for ONNX wants older versions of onnx
and ONNX Runtime than mulo has. What must be seen here are the tensors of the loop: drafts, their verification, and the
waves that resample.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from mulo_export.calibration import Calibration, RoleCalibration
from mulo_runtime import AutoRegressive, ClassId, Condition, Method, Pipeline, Prompt, Request
from mulo_runtime.graphs import GRAPHS
from rich.console import Console
from rich.progress import track

from mulo_tools.condition_options import read_condition
from mulo_tools.observed_engine import ObservedEngine
from mulo_tools.output import replacing
from mulo_tools.reference.scenes import TUNING_SEEDS, scenes_of

__all__ = ["calibrate_command"]

_ROLES = ("drafter", "target")
_PRECISIONS = ("fp32", "fp16")
_PROMPTS = 1000
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("calibrate")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--out", type=_FILE, required=True, help="Where the calibration is written.")
@click.option("--images", default=64, show_default=True, type=click.IntRange(1), help="Images that are drawn.")
@click.option("--prompt", "prompts", multiple=True, help="What they show; repeatable.")
@click.option("--condition", "conditions", type=_FILE, multiple=True, metavar="FILE.npz", help="Likewise.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the first; the next follow."
)
@click.option("--threads", default=0, show_default=True, type=click.IntRange(0), help="0 takes every core.")
def calibrate_command(
    bundle: Path,
    out: Path,
    images: int,
    prompts: tuple[str, ...],
    conditions: tuple[Path, ...],
    seed: int,
    threads: int,
) -> None:
    """Draw images with BUNDLE, by its MuLo-SD and plainly in turn, and note the largest inputs of its linear layers.

    `mulo-export ... --precision fp8 --calibration FILE`, or int8-tensorrt, makes a bundle of the same checkpoints that
    multiplies in 8 bits. Images show each class in turn or, of the shipped family, prompts that nothing is scored on,
    where neither --prompt nor --condition says otherwise.
    """
    opened = _opened(bundle)
    given = [*map(Prompt, prompts), *map(read_condition, conditions)]
    shown = given or _known_conditions(opened.manifest)
    loader = open_backend("onnxruntime", threads=threads)
    observed = {role: ObservedEngine.load(opened, role, threads=threads) for role in _ROLES}
    engines = {name: observed.get(name) or loader.load(opened, name) for name in GRAPHS}
    with Pipeline(opened, engines) as pipeline:
        methods: list[Method] = [pipeline.method, AutoRegressive()]
        for index in track(range(images), "calibrating", console=Console(stderr=True)):
            condition = shown[index % len(shown)]
            pipeline.generate(Request(condition, seed=seed + index, method=methods[index % len(methods)]))
    sources = {record.role: record.sha256 for record in opened.manifest.provenance}
    drafter, target = (RoleCalibration(checkpoint=sources[role], inputs=observed[role].ranges) for role in _ROLES)
    calibration = Calibration(images=images, drafter=drafter, target=target)
    with replacing(out) as partial:
        partial.write_text(calibration.model_dump_json(indent=2) + "\n", encoding="utf-8")
    click.echo(out)


def _opened(path: Path) -> Bundle:
    """The bundle, whose linear layers must be neither quantized nor of a type that the CPU does not compute in."""
    bundle = Bundle.open(path)
    if bundle.manifest.precision not in _PRECISIONS:
        raise RequestError(
            f"{bundle.path}: a bundle of this precision does not tell what its layers would read",
            found=bundle.manifest.precision,
            expected=" or ".join(_PRECISIONS),
            fix="export the checkpoints with --precision fp32 for the calibration",
        )
    return bundle


def _known_conditions(manifest: Manifest) -> Sequence[Condition]:
    """What images show where nothing is given."""
    if manifest.prompt is not None:
        return [Prompt(scene.caption) for scene in scenes_of(TUNING_SEEDS[:_PROMPTS])]
    if manifest.condition.classes is not None:
        return [ClassId(number) for number in range(manifest.condition.classes)]
    raise click.UsageError("this bundle knows no prompts and no classes: give --condition, more than one is better")
