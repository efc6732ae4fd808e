"""A bar on stderr that grows with the rows of an image."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from mulo_runtime import Drafted, DraftPreview, Event, RowsDone, RowsPreview, StreamEvent
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["ImageProgress"]


class ImageProgress:
    """Shows rows done, the accepted share and the time left; says nothing where stderr is no terminal.

    Args:
        rows: rows of the image's grid.
        quiet: say nothing at all.
    """

    def __init__(self, rows: int, *, quiet: bool = False) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"))
        self._bar = Progress(
            *columns,
            TextColumn("{task.fields[accepted]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bar.add_task("decoding", total=rows, accepted="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, event: Event | StreamEvent) -> None:
        """Show what `event` tells."""
        if isinstance(event, Drafted | DraftPreview):
            self._bar.update(self._task, description=f"drafted {event.rows} rows")
        elif isinstance(event, RowsDone | RowsPreview):
            accepted = "" if event.accepted_share is None else f"{event.accepted_share:.0%} accepted"
            self._bar.update(self._task, completed=event.rows, accepted=accepted)
