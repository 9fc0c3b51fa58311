"""How many rows at a time, so that point statements keep their latency whatever a table asks of its rows."""

from __future__ import annotations

FIRST_ROWS, LEAST_ROWS, MOST_ROWS = 256, 32, 8192
_LONG_S, _SHORT_S = 0.003, 0.001


class Pace:
    """Follows the time that the last rows took.

    Attributes:
        rows: to be taken next.
    """

    def __init__(self) -> None:
        self.rows = FIRST_ROWS

    def took(self, seconds: float) -> None:
        """The last rows took so long: fewer or more, until they take one to three milliseconds."""
        if seconds > _LONG_S:
            self.rows = max(self.rows // 2, LEAST_ROWS)
        elif seconds < _SHORT_S:
            self.rows = min(self.rows * 2, MOST_ROWS)
