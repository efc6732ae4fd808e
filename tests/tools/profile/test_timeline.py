"""The picture shows every pass where and as long as it was, in the colour of its phase."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mulo_tools.profile.loop import HOST, TimedImage
from mulo_tools.profile.timeline import PHASE_COLOURS, Panel, draw_timeline
from numpy.typing import NDArray

MakeImage = Callable[..., TimedImage]


def share(row: NDArray[np.uint8], phase: str) -> float:
    """The share of a row's pixels that have the colour of `phase`."""
    return float((row == PHASE_COLOURS[phase]).all(-1).mean())


def rows_with(picture: NDArray[np.uint8], phase: str) -> NDArray[np.uint8]:
    """The rows of pixels with more of the colour of `phase` than the legend has."""
    return picture[[share(row, phase) > 0.02 for row in picture]]


def test_lengths_of_bars_are_lengths_of_time(make_image: MakeImage) -> None:
    image = make_image(("draft", "drafter", 0, 2), ("verify", "target", 2, 4), seconds=8)
    picture = draw_timeline("title", "subtitle", [Panel("mulo-sd", "tau=1", "note", image)])
    both = rows_with(rows_with(picture, "draft"), "verify")[0]
    assert abs(share(both, "verify") - 2 * share(both, "draft")) < 0.01
    assert abs(share(both, HOST) - share(both, "draft")) < 0.01


def test_all_methods_share_the_scale_of_the_longest(make_image: MakeImage) -> None:
    short = make_image(("draft", "drafter", 0, 1), seconds=1)
    long = make_image(("decode tokens", "target", 0, 4), seconds=4)
    panels = [Panel("mulo-sd", "", "", short), Panel("ar", "", "", long)]
    picture = draw_timeline("title", "subtitle", panels)
    widths = [share(rows_with(picture, phase)[0], phase) for phase in ("draft", "decode tokens")]
    assert abs(widths[1] - 4 * widths[0]) < 0.02


def test_a_pass_too_short_to_see_is_drawn_all_the_same(make_image: MakeImage) -> None:
    blank = make_image(("decode", "decoder", 0, 0.5), seconds=1)
    dotted = make_image(("decode", "decoder", 0, 0.5), ("resample", "target", 0.7, 1e-9), seconds=1)
    pictures = [draw_timeline("title", "", [Panel("ar", "", "", image)]) for image in (blank, dotted)]
    assert pictures[1].shape[0] > pictures[0].shape[0]
    reddish = pictures[1].astype(int)[..., 0] - pictures[1].astype(int)[..., 1] > 40
    assert reddish.any()
