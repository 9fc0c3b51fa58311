"""The bar that long work shows on a terminal: what is done, how fast, and how long it will take."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A progress bar on standard error; silent where that is no terminal.

    Args:
        what: the line's title.
        unit: what the count beside the bar counts.
        transient: it goes from the terminal when the work is done.
    """

    def __init__(self, what: str, unit: str = "rows", *, transient: bool = False) -> None:
        self._what = what
        self._unit = unit
        self._transient = transient
        self._began = time.perf_counter()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(),
                console=Console(file=sys.stderr),
                transient=self._transient,
            )
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=None, text="")
        return self

    def update(self, done: float, total: float | None, count: int) -> None:
        """Show that ``done`` of ``total`` is done, and ``count`` things by now."""
        if self._progress is not None:
            rate = count / max(self.seconds, 1e-6)
            self.show(done, total, f"{count:,} {self._unit}, {rate:,.0f}/s")

    def show(self, done: float, total: float | None, text: str) -> None:
        """Show that ``done`` of ``total`` (None: it is not known) is done, and ``text`` beside the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total, text=text)

    def note(self, line: str) -> None:
        """Show a line that stays above the bar."""
        if self._progress is not None:
            self._progress.console.print(line, highlight=False)

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.perf_counter() - self._began

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def speed(count: int, seconds: float) -> str:
    """``count`` rows in ``seconds`` as people read it."""
    return f"{count:,} rows in {seconds:.1f} s ({count / max(seconds, 1e-9):,.0f} rows/s)"
