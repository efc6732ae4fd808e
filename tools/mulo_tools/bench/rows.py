"""From timed and scored images to the rows of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
from mulo_runtime import AutoRegressive, Method, Statistics, method_name, method_settings
from numpy.typing import NDArray

from mulo_tools.bench.estimates import difference_lower_bound, frechet_distance, wilson_interval
from mulo_tools.bench.report import Row
from mulo_tools.bench.scoring import Scored
from mulo_tools.bench.texture import TEXTURE_FEATURES
from mulo_tools.bench.timing import Timed

__all__ = ["MINIMUM_TEXTURES", "make_row"]

MINIMUM_TEXTURES = 2 * TEXTURE_FEATURES
"""Images below which a texture distance would be all noise."""


def make_row(
    method: Method,
    ratio: int,
    timed: Sequence[Timed],
    scored: Sequence[Scored],
    reached: Mapping[str, NDArray[np.float64]],
) -> Row:
    """One method's row.

    Args:
        method: whose.
        ratio: rows of the target's grid for one of the drafter's.
        timed: timed images of all methods, those of one case together.
        scored: scored images of all methods.
        reached: "textures" and the classifier's "features" of reconstructions, each [n, 64]; what is not there leaves
            the texture distance or FID and KID out.
    """
    own, plain = ([image for image in scored if image.method == kind] for kind in (method, AutoRegressive()))
    return Row(
        method=method_name(method),
        ratio=ratio,
        settings=method_settings(method),
        images=len(own) or sum(image.method == method for image in timed),
        **_times(method, timed),
        **_scores(own, plain),
        texture_distance=_texture_distance(own, reached.get("textures")),
        **_distances(own, reached.get("features")),
        agreement=_agreement(own, plain),
    )


def _times(method: Method, timed: Sequence[Timed]) -> dict[str, Any]:
    plain_seconds = {image.seed: image.seconds for image in timed if image.method == AutoRegressive()}
    own = [image for image in timed if image.method == method]
    if not own:
        return {}
    return {
        "seconds_per_image": median(image.seconds for image in own),
        "cpu_seconds_per_image": median(image.cpu_seconds for image in own),
        "speedup": median(plain_seconds[image.seed] / image.seconds for image in own),
        **_work([image.statistics for image in own]),
    }


def _work(statistics: Sequence[Statistics]) -> dict[str, float | None]:
    """What the engines did for an image, on average."""

    def mean_of(value: Callable[[Statistics], float | None]) -> float | None:
        values = [found for one in statistics if (found := value(one)) is not None]
        return fmean(values) if values else None

    def usage_of(attribute: str, *engines: str) -> float | None:
        """Of those among `engines` that a method runs."""
        return mean_of(lambda one: sum(getattr(one.engines[name], attribute) for name in {*engines} & {*one.engines}))

    return {
        "target_passes": usage_of("passes", "target"),
        "target_queries": usage_of("queries", "target"),
        "drafter_passes": usage_of("passes", "drafter", "eagle"),
        "drafter_queries": usage_of("queries", "drafter", "eagle"),
        "accepted_share": mean_of(lambda one: one.accepted_share),
        "resampled_share": mean_of(lambda one: one.resampled_share),
        "host_share": mean_of(lambda one: one.host_share),
    }


def _scores(own: Sequence[Scored], plain: Sequence[Scored]) -> dict[str, Any]:
    if not own:
        return {}
    correct, plainly_correct = _in_order(own), _in_order(plain)
    low, high = wilson_interval(int(correct.sum()), len(correct))
    return {
        "score": float(correct.mean()),
        "score_low": low,
        "score_high": high,
        "score_difference_low": 0.0 if own == plain else difference_lower_bound(correct, plainly_correct),
    }


def _in_order(images: Sequence[Scored]) -> NDArray[np.bool_]:
    return np.array([image.correct for image in sorted(images, key=lambda image: image.seed)])


def _texture_distance(own: Sequence[Scored], textures: NDArray[np.float64] | None) -> float | None:
    if textures is None or len(own) < MINIMUM_TEXTURES:
        return None
    return frechet_distance(np.array([image.texture for image in own]), textures)


def _distances(own: Sequence[Scored], reference: NDArray[np.float64] | None) -> dict[str, float]:
    found = [image.features for image in own if image.features is not None]
    if reference is None or len(found) < MINIMUM_TEXTURES:
        return {}
    from mulo_tools.evaluate.distances import frechet_inception_distance, kernel_inception_distance

    features, references = np.array(found, np.float32), reference.astype(np.float32)
    kid, _ = kernel_inception_distance(features, references)
    return {"fid": frechet_inception_distance(features, references), "kid": kid}


def _agreement(own: Sequence[Scored], plain: Sequence[Scored]) -> float | None:
    """Mean share of tokens in their place, over the cases whose tokens both have."""
    theirs = {image.seed: np.frombuffer(image.tokens, "<u2") for image in plain if image.tokens}
    pairs = [(np.frombuffer(image.tokens, "<u2"), theirs[image.seed]) for image in own if image.seed in theirs]
    shares = [float((ours == plainly).mean()) for ours, plainly in pairs if len(ours) == len(plainly)]
    return fmean(shares) if shares else None
