"""Methods and sampling as a user writes them: flags of a command, or a specification such as "mulo-sd tau=0.1"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from mulo_runtime import METHODS, Method, MuloSD, Sampling, default_method, default_sampling

__all__ = [
    "chosen_method",
    "chosen_sampling",
    "method_options",
    "parse_method",
    "sampling_options",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_METHOD_HELP: Mapping[str, str] = {
    "tau": "mulo-sd: accept a candidate whose pooled mass reaches this; 0 accepts all, above 1 none.",
    "pool_k": "mulo-sd: nearest codebook entries whose probability is pooled.",
    "include_self": "mulo-sd: whether the candidate is one of them.",
    "redraw_k": "mulo-sd: an accepted candidate gives way to a draw that is one of so many entries nearest to it.",
    "radius": "mulo-sd: expand a rejection by this many tokens; none does not.",
    "rejection": "mulo-sd: resample around rejections, or everything from the first on.",
    "draft": "mulo-sd: draft the whole image first, or rows as rounds need them.",
    "draft_window": "mulo-sd: ZipAR window of the drafter; 0 drafts serially.",
    "draft_temperature": "mulo-sd: temperature of the drafter; none takes the target's.",
    "draft_top_k": "mulo-sd: tokens that the drafter keeps; none takes the target's.",
    "rows_per_round": "mulo-sd: drafter rows in a round; 0 is the whole image.",
    "look_ahead": "mulo-sd: drafter rows drafted beyond a round.",
    "islands": "mulo-sd: resample islands side by side, or in raster order.",
    "window": "zipar, pjd, zipar-adaptive: the window; mulo-sd: that inside an island, where 0 is serial.",
    "surrogate": "mulo-sd: token that stands in for a predecessor still to be drawn.",
    "stale": "mulo-sd: show tokens still to be resampled, or hide them.",
    "refresh": "mulo-sd: which keys of a round are computed anew.",
    "resynchronise": "mulo-sd: whether verified tokens replace the drafter's.",
    "guided": "mulo-sd: which models guidance steers; the other one runs at half the cost.",
    "jacobi_window": "sjd, gsd: drafted tokens that a pass verifies; pjd: of every row.",
    "start": "sjd, gsd: what a token is before its first pass.",
    "group": "gsd: tokens of a group.",
    "group_gap": "gsd: how far apart the probabilities of a group may be.",
    "group_k": "gsd: nearest codebook entries that may be of a group.",
    "length": "chain methods: tokens drafted in a round, or the depth of a tree.",
    "tree": "chain methods: whether a chain is drafted, EAGLE-1's tree or EAGLE-2's.",
    "tree_nodes": "chain methods: tokens of a dynamic tree that are verified.",
    "tree_width": "chain methods: children of a node of a dynamic tree.",
    "delta": "cool-sd, uniform-rsd, linear-rsd: mean weight of the ratio; lantern: most mass that counts for a draft.",
    "nu": "cool-sd: how fast the weight falls along the chain.",
    "residual": "cool-sd, lantern++: what replaces a rejected token.",
    "horizon": "linear-rsd: depth at which the weight would reach 0.",
    "nearest": "lantern, lantern++: nearest codebook entries whose mass counts.",
    "multiple": "lantern++: bound of that mass, as a multiple of the draft's own.",
    "schedule": "zipar: start the second row inside the first, or after it as published.",
}
_SAMPLING_HELP: Mapping[str, str] = {
    "guidance_scale": "Classifier-free guidance; 1 or less is off.",
    "temperature": "Divides the logits; 0 takes the likeliest token.",
    "top_k": "Keep this many tokens; 0 keeps all.",
    "top_p": "Keep tokens up to this probability; 1 keeps all.",
}


def method_options(command: _Command) -> _Command:
    """Add `--method` and a flag for every switch of every method; what is not given stays as the bundle has it."""
    hints = reduce(or_, map(get_type_hints, METHODS.values()))
    flags = [_flag(name, hints[name], text) for name, text in _METHOD_HELP.items()]
    method = click.option("--method", type=click.Choice(list(METHODS)), default="mulo-sd", show_default=True)
    return _decorate(command, [method, *flags])


def sampling_options(command: _Command) -> _Command:
    """Add a flag for every sampling parameter."""
    hints = get_type_hints(Sampling)
    return _decorate(command, [_flag(name, hints[name], text) for name, text in _SAMPLING_HELP.items()])


def chosen_method(manifest: Manifest, name: str, flags: Mapping[str, Any]) -> Method:
    """The method called `name`, with the switches that are given among `flags`; MuLo-SD starts from the bundle's.

    Raises:
        RequestError: a switch is not the method's, or out of range.
        BundleError: the bundle's defaults are refused.
    """
    return _method(manifest, name, {switch: flags[switch] for switch in _METHOD_HELP if flags[switch] is not None})


def chosen_sampling(manifest: Manifest, flags: Mapping[str, Any]) -> Sampling:
    """The bundle's sampling, with the parameters that are given among `flags`.

    Raises:
        RequestError: a parameter is out of range.
        BundleError: the bundle's defaults are refused.
    """
    given = {name: flags[name] for name in _SAMPLING_HELP if flags[name] is not None}
    return replace(default_sampling(manifest), **_values(Sampling, given))


def parse_method(manifest: Manifest, specification: str) -> Method:
    """The method that a specification such as "mulo-sd tau=0.1 radius=none" or "zipar window=4" describes.

    Raises:
        RequestError: it is not of this form, or a switch is not the method's or out of range.
        BundleError: the bundle's defaults are refused.
    """
    name, *switches = specification.split() or [""]
    pairs = [switch.partition("=") for switch in switches]
    if name not in METHODS or not all(equals for _, equals, _ in pairs):
        raise RequestError(
            "the method is not understood", found=repr(specification), expected=f"{'|'.join(METHODS)} [NAME=VALUE ...]"
        )
    return _method(manifest, name, {switch.replace("-", "_"): value for switch, _, value in pairs})


def _method(manifest: Manifest, name: str, texts: Mapping[str, str]) -> Method:
    kind = METHODS[name]
    start = default_method(manifest) if kind is MuloSD else kind()
    return replace(start, **_values(kind, texts))


def _values(kind: type[Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """`texts` as values of the fields of `kind`."""
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    unknown = sorted(set(texts) - set(known))
    if unknown:
        raise RequestError(
            f"{kind.__name__} has no switch {', '.join(unknown)}", expected=", ".join(known) or "no switches at all"
        )
    return {name: _value(name, hints[name], text) for name, text in texts.items()}


def _value(name: str, hint: Any, text: str) -> Any:
    if get_origin(hint) is UnionType:
        if text.lower() == "none":
            return None
        hint = get_args(hint)[0]
    try:
        return _parameter_type(hint).convert(text, None, None)
    except click.BadParameter as error:
        raise RequestError(f"setting {name!r} is refused", found=repr(text), expected=_form(hint)) from error


def _flag(name: str, hint: Any, text: str) -> Callable[[_Command], _Command]:
    return click.option(f"--{name.replace('_', '-')}", metavar=_form(hint), help=text)


def _form(hint: Any) -> str:
    """What a value of type `hint` looks like on the command line."""
    if get_origin(hint) is UnionType:
        return f"{_form(get_args(hint)[0])}|none"
    if get_origin(hint) is Literal:
        return "|".join(get_args(hint))
    return _parameter_type(hint).name.upper()


def _parameter_type(hint: Any) -> click.ParamType[Any]:
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint))
    return {bool: click.BOOL, int: click.INT, float: click.FLOAT}[hint]


def _decorate(command: _Command, options: list[Callable[[_Command], _Command]]) -> _Command:
    """Apply `options` so that the help lists them in their order."""
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)
