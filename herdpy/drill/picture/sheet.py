"""What every part of the picture draws on: the canvas, the shared time axis, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from herdpy.drill.history import Operation
from herdpy.drill.picture import style
from herdpy.drill.picture.axis import Axis
from herdpy.drill.picture.svg import Canvas
from herdpy.drill.report import Report
from herdpy.drill.timeline import operations_by_kind

_SWATCH = 10
_LEGEND_LINE = 15


@dataclass(frozen=True)
class Sheet:
    """One picture under way. A part draws from the `top` that it is given and returns where it ended."""

    canvas: Canvas
    axis: Axis
    report: Report
    by_kind: dict[str, list[Operation]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_kind", operations_by_kind(self.report.history))

    def lane(self, top: float, bottom: float, name: str, unit: str = "") -> None:
        """The frame of a lane and its name, with the unit of what it shows."""
        self.canvas.line(self.axis.left, bottom, self.axis.right, bottom, style.GRID, under=True)
        self.canvas.text(style.MARGIN, top + 13, name, size=13, bold=True)
        if unit:
            self.canvas.text(style.MARGIN, top + 28, unit, size=11, fill=style.MUTED)

    def legend(self, top: float, entries: Sequence[tuple[str, str, str]]) -> None:
        """What colours mean, at the left: a shape ("box", "line" or "dot"), a colour and its meaning."""
        for number, (shape, colour, meaning) in enumerate(entries):
            y = top + number * _LEGEND_LINE
            x = style.MARGIN
            if shape == "line":
                self.canvas.line(x, y - 4, x + _SWATCH, y - 4, colour, width=2.5)
            elif shape == "dot":
                self.canvas.circle(x + _SWATCH / 2, y - 4, 4, colour)
            else:
                self.canvas.rect(x, y - 9, _SWATCH, _SWATCH, colour, radius=2)
            self.canvas.text(x + _SWATCH + 6, y, meaning, size=11, fill=style.MUTED)
