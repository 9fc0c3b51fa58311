"""What a client of the model ZooKeeper asked to be told of: changes of znodes, and of its session.

Below ``znodes``, which calls back; here is only what stays until it is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from herdpy.bookkeeper.metadata.znodes import SessionState

UNKNOWN_STATE = object()
"""What was told last, before anything was."""


class ModelWatch:
    """A watch on data or children. `told` is the state that was told last; `has_fired`: it changed since."""

    def __init__(
        self, owner: list[ModelWatch], path: str, children: bool, callback: Callable[[Any], None]
    ) -> None:
        self.path = path
        self.children = children
        self.callback: Callable[[Any], None] | None = callback
        self.told: object = UNKNOWN_STATE
        self.has_fired = False
        self.is_due = False
        self._owner = owner

    def cancel(self) -> None:
        self.callback = None
        if self in self._owner:
            self._owner.remove(self)


class Listener:
    """A listener to the session."""

    def __init__(
        self, owner: list[Callable[[SessionState], None]], callback: Callable[[SessionState], None]
    ) -> None:
        self._owner = owner
        self._callback = callback

    def cancel(self) -> None:
        if self._callback in self._owner:
            self._owner.remove(self._callback)
