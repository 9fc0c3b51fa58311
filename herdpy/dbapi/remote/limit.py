"""How long a statement on a server may take, as its caller says. Below ``wire``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class StatementLimit:
    """How long the statement that a caller waits for may take; of a link, whichever connection it has.

    Attributes:
        is_up: the server was told to end the statement.
    """

    def __init__(self) -> None:
        self.until: float | None = None  # on time.monotonic
        self.is_up = False

    def before(self, deadline: float) -> float:
        """The earlier one of the limit and ``deadline``."""
        return deadline if self.until is None else min(deadline, self.until)

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """The block's statements have so many seconds together."""
        self.until, self.is_up = time.monotonic() + seconds, False
        try:
            yield
        finally:
            self.until = None

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Within the block there is none."""
        until, self.until = self.until, None
        try:
            yield
        finally:
            self.until = until
