"""`mulo evaluate`: numbers and folders for images that real models have made."""

from __future__ import annotations

import json
from pathlib import Path

import click
from mulo_engines.command import CommandGroup
from mulo_engines.errors import RequestError

from mulo_tools.evaluate.layouts import LAYOUTS
from mulo_tools.evaluate.numbered import numbered_images, read_images

__all__ = ["evaluate_group"]

_PATH = click.Path(path_type=Path)
_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
_images_option = click.option("--images", required=True, type=_PATH, help="Folder of PROMPT-SAMPLE.png, from 0 on.")
_batch_option = click.option("--batch", default=32, show_default=True, type=click.IntRange(1), help="Images at once.")


@click.group("evaluate", cls=CommandGroup)
def evaluate_group() -> None:
    """Measure images of real models, with networks that you bring: nothing is downloaded."""


@evaluate_group.command("fid")
@click.option("--images", required=True, type=_PATH, help="Folder of images.")
@click.option("--reference", required=True, type=_PATH, help="Folder of real images.")
@click.option("--weights", required=True, type=_PATH, help="inception-2015-12-05.pt, a TorchScript.")
@_batch_option
def fid_command(images: Path, reference: Path, weights: Path, batch: int) -> None:
    """FID and KID of two folders of images, resized as clean-fid does."""
    from mulo_tools.evaluate.distances import frechet_inception_distance, kernel_inception_distance
    from mulo_tools.evaluate.inception import inception_features

    ours, theirs = (
        inception_features(weights, read_images(_image_paths(folder), batch)) for folder in (images, reference)
    )
    kid, deviation = kernel_inception_distance(ours, theirs)
    found = {"images": len(ours), "reference": len(theirs), "fid": frechet_inception_distance(ours, theirs)}
    click.echo(json.dumps({**found, "kid": kid, "kid_deviation": deviation}))


@evaluate_group.command("clip")
@_images_option
@click.option("--prompts", required=True, type=_PATH, help="Text file, one prompt a line.")
@click.option("--model", required=True, type=_PATH, help="Folder of a CLIP with model.safetensors.")
@_batch_option
def clip_command(images: Path, prompts: Path, model: Path, batch: int) -> None:
    """Mean CLIP score of images and their prompts."""
    from mulo_tools.evaluate.clip_score import clip_score

    lines, found = _lines(prompts), numbered_images(images)
    beyond = [path for (prompt, _), path in found.items() if prompt >= len(lines)]
    if beyond:
        raise RequestError(f"{beyond[0]}: the image has no prompt", expected=f"prompts 0 to {len(lines) - 1}")
    texts, paths = [lines[prompt] for prompt, _ in found], list(found.values())
    starts = range(0, len(paths), batch)
    pictures = read_images(paths, batch)
    batches = ((shown, texts[start : start + batch]) for start, shown in zip(starts, pictures, strict=True))
    click.echo(json.dumps({"images": len(paths), "clip_score": clip_score(model, batches)}))


@evaluate_group.command("layout")
@click.argument("benchmark", type=click.Choice(list(LAYOUTS)))
@_images_option
@click.option("--prompts", required=True, type=_PATH, help="The benchmark's prompts.")
@click.option("--out", required=True, type=_PATH, help="Folder to write; it must not exist.")
def layout_command(benchmark: str, images: Path, prompts: Path, out: Path) -> None:
    """Lay images out in the folder that BENCHMARK reads.

    Prompts are numbered as the benchmark lists them: geneval by the lines of evaluation_metadata.jsonl, dpg-bench by
    the names of its text files, hpsv2 by style and place in the style's list. The first two want four samples each.
    """
    LAYOUTS[benchmark].write(images, prompts, out)
    click.echo(f"wrote {out}")


def _image_paths(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if len(paths) < 2:
        raise RequestError(f"{folder}: too few images", found=len(paths), expected="two or more")
    return paths


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: cannot be read", found=error, expected="a text file, one prompt a line") from error
