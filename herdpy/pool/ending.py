"""How pools end, and what they say of themselves: alike in both kinds. Beside ``core``; below their faces."""

from __future__ import annotations

import os
import warnings
from typing import Any, ClassVar, Generic, TypeVar

from herdpy.pool import settings
from herdpy.pool.core import Core
from herdpy.pool.settings import logger

C = TypeVar("C")


class Ending(Generic[C]):
    """The half of a pool that neither lends nor waits.

    It is for the process that made it: in a child of that one it must not be used, and its end does nothing.
    """

    _SHOWN_AS: ClassVar[str]
    _core: Core[C]
    _pid: int

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._core.is_closed

    def __repr__(self) -> str:
        core = self._core
        state = "closed" if self.closed else f"{core.lent} of {core.size} lent, at most {core.max_size}"
        return f"<{self._SHOWN_AS} [{state}] at {id(self):#x}>"

    def __del__(self, _warn: Any = warnings.warn) -> None:
        core = getattr(self, "_core", None)
        if core is None or core.is_closed or self._is_forked:
            return
        shown = repr(self)
        core.is_closed = True
        self._abandon([held.connection for held in core.idle])
        if core.size:
            _warn(f"{shown} was deleted without being closed", ResourceWarning)

    def _abandon(self, idle: list[C]) -> None:
        """The pool is being collected, wherever that is: have these closed, without waiting."""
        raise NotImplementedError

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def _refuse_fork(self) -> None:
        if self._is_forked:
            raise settings.forked()

    def _refuse_closed(self) -> None:
        if self.closed:
            raise settings.closed()

    def _tell_of(self, still: int) -> None:
        """A block has ended, and closed the pool, while so many connections are lent."""
        if still:
            logger.warning("%r was closed, but for %d connections that are still used", self, still)
