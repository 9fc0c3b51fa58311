"""What every part of the picture draws on: the canvas, the time axis that all lanes share, and the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from herdpy.drill.history import ClientOperation
from herdpy.drill.picture import style
from herdpy.drill.picture.svg import Canvas
from herdpy.drill.report import DrillReport
from herdpy.drill.timeline import operations_by_kind

_STEPS = (1, 2, 5)
_BIN_STEPS = (1, 2, 2.5, 5)


@dataclass(frozen=True)
class Axis:
    """Moments from `begin_s` to `end_s` stand from pixel `left` to pixel `right`."""

    begin_s: float
    end_s: float
    left: float
    right: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end_s - self.begin_s

    def x(self, moment_s: float) -> float:
        """Where a moment is; what is outside stands at the edge."""
        part = min(max((moment_s - self.begin_s) / self.seconds, 0.0), 1.0)
        return self.left + part * (self.right - self.left)

    @property
    def ticks(self) -> list[float]:
        """Round moments, eight to sixteen of them."""
        step = round_up(self.seconds / 15, _STEPS)
        return [tick for tick in multiples(step, self.end_s) if tick >= self.begin_s]

    @property
    def bin_s(self) -> float:
        """The length of a bin: a round one, so that there are 80 to 180 of them."""
        return round_up(self.seconds / 180, _BIN_STEPS)

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return max(1, math.ceil(round(self.seconds / self.bin_s, 9)))

    def bin_of(self, moment_s: float) -> int:
        """The number of the bin that a moment falls into."""
        return min(max(int((moment_s - self.begin_s) / self.bin_s), 0), self.bins - 1)

    def bin_ends(self, number: int) -> tuple[float, float]:
        """Where a bin begins and ends."""
        begin_s = self.begin_s + number * self.bin_s
        return self.x(begin_s), self.x(begin_s + self.bin_s)


def round_up(value: float, steps: tuple[float, ...]) -> float:
    """The smallest step times a power of ten that is not below a (positive) value."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in steps if step * power >= value * (1 - 1e-9)), 10 * power)


def multiples(step: float, end: float) -> list[float]:
    """0, step, 2 step ... up to `end`."""
    return [number * step for number in range(math.floor(end / step + 1e-9) + 1)]


_SWATCH = 10
_LEGEND_LINE = 15


@dataclass(frozen=True)
class Sheet:
    """One picture under way. A part draws from the `top` that it is given and returns where it ended."""

    canvas: Canvas
    axis: Axis
    report: DrillReport
    by_kind: dict[str, list[ClientOperation]] = field(init=False)

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
