"""Which of the events of an image are shown, and as what."""

from __future__ import annotations

from mulo_runtime.events import Drafted, Event, Verified
from mulo_runtime.lane import Lane
from mulo_runtime.request import DraftPreview, RowsPreview, VerifiedPreview

__all__ = ["Preview", "PreviewBudget", "preview"]

_BEFORE = 0.5

Preview = DraftPreview | VerifiedPreview | RowsPreview
"""A look at an image that is not finished."""


class PreviewBudget:
    """Chooses the events to show: the first draft, then what lies furthest apart in rows.

    Args:
        rows: rows of the image.
        previews: how many may be shown; None shows all.
    """

    def __init__(self, rows: int, previews: int | None) -> None:
        self._rows, self._left = rows, previews
        self._reached = 0.0
        self._drafted = False

    def takes(self, event: Event) -> bool:
        """Whether `event` is to be shown; counts it if so."""
        if self._left is None:
            return True
        if self._left == 0:
            return False
        if isinstance(event, Drafted):
            shown, self._drafted = not self._drafted, True
        else:
            # What was verified lies just before the same rows, resampled.
            reached = event.rows - _BEFORE * isinstance(event, Verified)
            shown = reached >= self._reached + (self._rows - self._reached) / (self._left + 1)
            self._reached = reached if shown else self._reached
        self._left -= shown
        return shown


def preview(lane: Lane, event: Event, seconds: float) -> Preview:
    """`event`, `seconds` after the lease, its first image decoded to pixels, which is not booked on the request."""
    image = lane.previewer.run(event.tokens)[0].copy()
    if isinstance(event, Drafted):
        return DraftPreview(event.rows, image, seconds)
    if isinstance(event, Verified):
        accept_map = event.accept_map[0].copy()
        return VerifiedPreview(event.rows, lane.grid[0], image, accept_map, event.accepted_share, seconds)
    return RowsPreview(event.rows, lane.grid[0], image, event.accepted_share, seconds)
