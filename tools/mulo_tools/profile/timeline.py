"""A picture of how images come about in time: every pass of every engine, methods one below the other on one scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from mulo_tools.drawing import INK, PALE_INK, PAPER, Colour, font, write
from mulo_tools.profile.loop import HOST, TimedImage

__all__ = ["PHASE_COLOURS", "Panel", "draw_timeline"]

PHASE_COLOURS: Mapping[str, Colour] = {
    "draft": (70, 116, 173),
    "upsample": (72, 153, 148),
    "verify": (232, 142, 54),
    "resample": (206, 72, 76),
    "resynchronise": (142, 108, 172),
    "decode tokens": (104, 122, 148),
    "decode": (102, 158, 84),
    HOST: (214, 210, 202),
}
"""Phases in the order of the legend."""

_ENGINES = ("target", "drafter", "sampler", "upsampler", "downsampler", "decoder")
_WIDTH, _MARGIN, _LABELS = 1600, 48, 132
_BAR, _GAP, _BETWEEN, _SCALE = 26, 8, 28, 2
_TITLE, _TEXT, _SMALL = 30, 18, 14
_RULE: Colour = (228, 225, 217)
_TRACK: Colour = (241, 239, 233)
_STEPS = (1, 2, 5)
_TICKS = 10


@dataclass(frozen=True, slots=True)
class Panel:
    """One method's image, under the method's name and switches, with a note at the right."""

    name: str
    switches: str
    note: str
    image: TimedImage

    @property
    def engines(self) -> list[str]:
        """The engines that ran, from the top of the panel down."""
        ran = {each.engine for each in self.image.passes}
        return [*(engine for engine in _ENGINES if engine in ran), *sorted(ran - set(_ENGINES))]

    @property
    def height(self) -> int:
        """Pixels of the panel."""
        return _TEXT + 14 + (len(self.engines) + 1) * (_BAR + _GAP) + _GAP


def draw_timeline(title: str, subtitle: str, panels: Sequence[Panel]) -> NDArray[np.uint8]:
    """Draw `panels`, all on the time scale of the longest image; [height, width, 3].

    Bars are drawn at twice the size and averaged, so that passes narrower than a pixel show as shade.
    """
    header = _MARGIN + _TITLE + 10 + _SMALL + 30
    body = sum(panel.height + _BETWEEN for panel in panels)
    height = header + body + _SMALL + 24 + len(panels) * (_SMALL + 12) + _MARGIN - 12
    longest = max(panel.image.seconds for panel in panels)
    canvas = _draw_bars(height, header, panels, longest)
    draw = ImageDraw.Draw(canvas)
    write(draw, (_MARGIN, _MARGIN), title, _TITLE)
    write(draw, (_MARGIN, _MARGIN + _TITLE + 10), subtitle, _SMALL, PALE_INK)
    for top, panel in _placed(header, panels):
        _write_panel(draw, top, panel)
    _write_axis(draw, header + body, longest)
    _write_legend(draw, header + body + _SMALL + 24, panels)
    return np.asarray(canvas)


def _placed(header: int, panels: Sequence[Panel]) -> Iterator[tuple[int, Panel]]:
    top = header
    for panel in panels:
        yield top, panel
        top += panel.height + _BETWEEN


def _draw_bars(height: int, header: int, panels: Sequence[Panel], longest: float) -> Image.Image:
    """Rules, tracks and passes, at twice the size, reduced."""
    canvas = Image.new("RGB", (_WIDTH * _SCALE, height * _SCALE), PAPER)
    draw = ImageDraw.Draw(canvas)
    bottom = header + sum(panel.height + _BETWEEN for panel in panels) - 12
    for tick in _ticks(longest):
        _box(draw, _place(tick, longest), header + _TEXT + 10, _place(tick, longest) + 0.5, bottom, _RULE)
    for top, panel in _placed(header, panels):
        _draw_panel(draw, top + _TEXT + 14, panel, longest)
    return canvas.resize((_WIDTH, height), Image.Resampling.BOX)


def _draw_panel(draw: ImageDraw.ImageDraw, top: float, panel: Panel, longest: float) -> None:
    """A track of phases, as wide as the image took, over one track for every engine."""
    image, pitch = panel.image, _BAR + _GAP
    end = _place(image.seconds, longest)
    _box(draw, _place(0, longest), top, end, top + _BAR, PHASE_COLOURS[HOST])
    tracks = {engine: top + pitch * number for number, engine in enumerate(panel.engines, 1)}
    for track in tracks.values():
        _box(draw, _place(0, longest), track, end, track + _BAR, _TRACK)
    for each in image.passes:
        left, colour = each.start - image.start, PHASE_COLOURS.get(each.phase, INK)
        places = _place(left, longest), _place(left + each.seconds, longest)
        for track in (top, tracks[each.engine]):
            _box(draw, places[0], track, places[1], track + _BAR, colour)


def _box(draw: ImageDraw.ImageDraw, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
    """A filled box, half a pixel wide at least."""
    scaled = [round(_SCALE * side) for side in (left, top, right, bottom)]
    draw.rectangle((scaled[0], scaled[1], max(scaled[0], scaled[2] - 1), scaled[3] - 1), fill=colour)


def _place(seconds: float, longest: float) -> float:
    """Where a time lies, in pixels from the left."""
    left = _MARGIN + _LABELS
    return left + (_WIDTH - _MARGIN - left) * seconds / longest


def _write_panel(draw: ImageDraw.ImageDraw, top: int, panel: Panel) -> None:
    write(draw, (_MARGIN, top), panel.name, _TEXT)
    write(draw, (_MARGIN + _LABELS, top + 3), panel.switches, _SMALL, PALE_INK)
    length = font(_SMALL).getlength(panel.note)
    write(draw, (_WIDTH - _MARGIN - length, top + 3), panel.note, _SMALL, PALE_INK)
    for number, name in enumerate(["all", *panel.engines]):
        place = top + _TEXT + 14 + number * (_BAR + _GAP) + (_BAR - _SMALL) // 2 - 1
        write(draw, (_MARGIN, place), name, _SMALL, INK if number == 0 else PALE_INK)


def _write_axis(draw: ImageDraw.ImageDraw, top: float, longest: float) -> None:
    for tick in _ticks(longest):
        text = f"{1000 * tick:g} ms"
        half = font(_SMALL).getlength(text) / 2
        place = min(_place(tick, longest) - half, _WIDTH - _MARGIN - 2 * half)
        write(draw, (place, top - 8), text, _SMALL, PALE_INK)


def _ticks(longest: float) -> list[float]:
    """Round times from 0 on, about ten."""
    rough = longest / _TICKS
    power = 10 ** np.floor(np.log10(rough))
    step = next((base * power for base in _STEPS if base * power >= rough), 10 * power)
    return [round(float(number * step), 12) for number in range(int(longest / step) + 1)]


def _write_legend(draw: ImageDraw.ImageDraw, top: float, panels: Sequence[Panel]) -> None:
    """A row for every panel: what each of its phases took."""
    for row, panel in enumerate(panels):
        phases, left = panel.image.by_phase(), float(_MARGIN)
        write(draw, (left, top + row * (_SMALL + 12)), panel.name, _SMALL, INK)
        left += _LABELS
        for name in [name for name in PHASE_COLOURS if name in phases]:
            text = f"{name}  {1000 * phases[name]:.1f} ms"
            _swatch(draw, left, top + row * (_SMALL + 12), PHASE_COLOURS[name])
            write(draw, (left + _SMALL + 8, top + row * (_SMALL + 12)), text, _SMALL, PALE_INK)
            left += _SMALL + 8 + font(_SMALL).getlength(text) + 28


def _swatch(draw: ImageDraw.ImageDraw, left: float, top: float, colour: Colour) -> None:
    draw.rounded_rectangle((left, top + 2, left + _SMALL, top + 2 + _SMALL), radius=3, fill=colour)
