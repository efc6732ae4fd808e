"""The options that every subcommand of `mulo-export` has, and what they say about the bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import click
from mulo_engines.tensorrt.binding import BUILDERS

from mulo_export.options import ExportOptions, FamilyDefaults
from mulo_export.precision import PRECISIONS, TENSORRT_FORMS, Precision

__all__ = ["EAGLE_OPTION", "FILE", "backend_option", "export_options", "pair_options", "plan_options", "shared_options"]

FILE = click.Path(path_type=Path)

_BACKENDS = click.Choice(["onnxruntime", *BUILDERS])

_PAIR = [
    click.option("--target", type=FILE, required=True, help="Checkpoint of the high-resolution model."),
    click.option("--drafter", type=FILE, required=True, help="Checkpoint of the low-resolution model."),
    click.option("--vq", type=FILE, required=True, help="Checkpoint of the VQ tokenizer of both."),
    click.option("--vq-ema", is_flag=True, help="Take the averaged weights of a VQ training file."),
    click.option("--target-heads", type=click.IntRange(1), help="Attention heads, for a size never published."),
    click.option("--drafter-heads", type=click.IntRange(1), help="Likewise, of the drafter."),
]
EAGLE_OPTION = click.option("--eagle", type=FILE, help="Checkpoint of the target's EAGLE head, for chain methods.")
_BUNDLE = [
    click.option("--out", type=FILE, required=True, help="The bundle's directory."),
    click.option(
        "--precision",
        type=click.Choice([*map(str, Precision)]),
        default="fp32",
        show_default=True,
        help="Type of the weights. With a --backend of NVIDIA, int8 and int4 are their -tensorrt forms.",
    ),
    click.option(
        "--calibration", type=FILE, help="By `mulo calibrate`: fp8 and int8-tensorrt compute in 8 bits, not only store."
    ),
    click.option("--upsampler", type=FILE, help="Checkpoint of a learned upsampler, in place of the one by pixels."),
    click.option(
        "--steepness", type=click.FloatRange(1), help="How much steeper edges of enlarged drafts get; 1 leaves them."
    ),
    click.option("--pool-k-max", type=click.IntRange(1), default=64, help="Largest pool_k that a run may ask for."),
    click.option("--force", is_flag=True, help="Replace the bundle that is there."),
    click.option("--skip-parity", is_flag=True, help="Publish WITHOUT comparing the graphs with their references."),
    click.option("--backend", "backends", type=_BACKENDS, multiple=True, help="Then compile for this; repeatable."),
    click.option("--dry-run", is_flag=True, help="Show what the bundle and a run of it take; write nothing."),
]
_SAMPLING = [
    click.option("--guidance-scale", type=click.FloatRange(0), help="Classifier-free guidance; 1 is off."),
    click.option("--temperature", type=click.FloatRange(0), help="0 takes the most probable token."),
    click.option("--top-k", type=click.IntRange(0), help="Tokens kept; 0 keeps all."),
    click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Probability kept; 1 keeps all."),
]
_MULO = [
    click.option("--tau", type=click.FloatRange(0), help="Probability mass from which a candidate is accepted."),
    click.option("--pool-k", type=click.IntRange(1), help="Nearest codes whose probability is pooled."),
    click.option("--redraw-k", type=click.IntRange(0), help="Nearest codes that a draw may be of to replace a draft."),
    click.option("--radius", type=click.IntRange(0), help="By how many tokens a rejection is expanded."),
    click.option("--rows-per-round", type=click.IntRange(0), help="Drafter rows in a round; 0 is the whole image."),
    click.option("--window", type=click.IntRange(0), help="ZipAR window inside an island; 0 is serial."),
    click.option("--draft", type=click.Choice(["image", "rows"]), help="What is drafted before the first round."),
    click.option("--draft-temperature", type=click.FloatRange(0), help="Temperature of the drafter alone."),
    click.option("--guided", type=click.Choice(["both", "drafter", "target"]), help="Which models guidance steers."),
    click.option("--draft-window", type=click.IntRange(0), help="ZipAR window of the drafter; 0 is serial."),
]
_PLANS = [
    click.option("--engines", type=FILE, help="Where to put the engines  [default: engines/ inside the bundle]"),
    click.option("--images", type=click.IntRange(1), default=1, show_default=True, help="Images decoded together."),
    click.option("--queries", type=click.IntRange(1), default=256, show_default=True, help="Most queries of a pass."),
    click.option("--drafter-slots", type=click.IntRange(1), help="Length of the drafter's cache  [default: as needed]"),
    click.option("--target-slots", type=click.IntRange(1), help="Length of the target's cache  [default: as needed]"),
    click.option("--drafter-short-slots", type=click.IntRange(1), help="S of a second plan, for the first rows."),
    click.option(
        "--target-short-slots", type=click.IntRange(1), help="Likewise; a second plan holds the weights again."
    ),
]
_SAMPLING_NAMES = ("guidance_scale", "temperature", "top_k", "top_p")
_COMPUTED_CODES = ("int8", "float8e4m3fn")
"""Types of codes that GPUs multiply; codes of 4 bits are only stored."""
_MULO_NAMES = (
    "tau",
    "pool_k",
    "redraw_k",
    "radius",
    "rows_per_round",
    "window",
    "draft",
    "draft_window",
    "draft_temperature",
    "guided",
)


def pair_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that tell the checkpoints of a pair, files of torch.save or safetensors, and of its tokenizer."""
    return reduce(lambda decorated, option: option(decorated), reversed(_PAIR), command)


def shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options; those of sampling and of MuLo-SD become the bundle's defaults."""
    return _decorated(command, [*_BUNDLE, *_SAMPLING, *_MULO])


def plan_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `CompileOptions`."""
    return _decorated(command, _PLANS)


def backend_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option that names the backends to compile for."""
    option = click.option("--backend", "backends", type=_BACKENDS, multiple=True, required=True, help="Repeatable.")
    return option(command)


def export_options(settings: Mapping[str, Any], defaults: FamilyDefaults, vocabulary: int) -> ExportOptions:
    """What the options say.

    Args:
        settings: their values by parameter name; None where the user gave none.
        defaults: the family's own settings, in place of those that the user did not give.
        vocabulary: size of the codebook, beyond which there are no neighbours.

    Raises:
        click.BadParameter: two options contradict each other.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    pool_k_max = min(given["pool_k_max"], vocabulary)
    if given.get("pool_k", 1) > pool_k_max:
        raise click.BadParameter(
            f"{given['pool_k']} is more than the sampler pools, {pool_k_max}; "
            f"give at most {vocabulary} and a --pool-k-max as large",
            param_hint="--pool-k",
        )
    precision = _precision(given["precision"], given["backends"])
    codes = PRECISIONS[precision].codes
    if "calibration" in given and (codes is None or codes.dtype not in _COMPUTED_CODES):
        raise click.BadParameter(f"{precision} is not computed in codes", param_hint="--calibration")
    chosen = replace(
        defaults,
        sampling={**defaults.sampling, **{name: given[name] for name in _SAMPLING_NAMES if name in given}},
        mulo={**defaults.mulo, **{name: given[name] for name in _MULO_NAMES if name in given}},
        steepness=given.get("steepness", defaults.steepness),
    )
    choices = {name: given.get(name) for name in ("calibration", "skip_parity", "force")}
    return chosen.options(precision, pool_k_max, **choices)


def _precision(name: str, backends: Sequence[str]) -> Precision:
    """The precision called `name`, in the form that all `backends` read."""
    precision = Precision(name)
    return TENSORRT_FORMS.get(precision, precision) if set(backends) & set(BUILDERS) else precision


def _decorated(command: Callable[..., None], options: Sequence[Callable[..., Any]]) -> Callable[..., None]:
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)
