"""The time axis that all lanes share: where a moment is, its ticks, and bins of equal length."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
