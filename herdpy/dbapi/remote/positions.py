"""The newest commit of this process in each tablespace, so that its reads on followers have it.

Below ``remote``. A server tells the position of each commit that has a name (``herdpy.commit_position``).
Connections that have a server in common share the newest; one that reads at the level at_lsn on a server that
follows names it first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection

Host = tuple[str, int]
_MOST_HOSTS = 1024

_shared: dict[tuple[str, Host], Positions] = {}
_lock = threading.Lock()


class Positions:
    """The newest commit in one tablespace.

    Attributes:
        newest: its position as text; empty while there is none.
    """

    def __init__(self) -> None:
        self.newest = ""
        self._newest = (-1, -1)

    def note(self, position: str) -> None:
        """There is a commit at this position."""
        found = _parts(position)
        if found <= self._newest:  # which never goes back, so this needs no lock
            return
        with _lock:
            if found > self._newest:
                self._newest, self.newest = found, position


def is_after(position: str, other: str) -> bool:
    """Whether a position is after another; an empty one is before all."""
    return _parts(position) > _parts(other)


def _parts(position: str) -> tuple[int, int]:
    ledger, _colon, entry = position.partition(":")
    return (int(ledger), int(entry)) if position else (-1, -1)


def positions_of(hosts: Collection[Host], tablespace: str) -> Positions:
    """The one that connections to any of these servers share."""
    keys = [(tablespace, host) for host in hosts]
    with _lock:
        known = [_shared[key] for key in keys if key in _shared]
        found = max(known, key=lambda one: one._newest, default=None) or Positions()
        if len(_shared) > _MOST_HOSTS:
            _shared.clear()
        _shared.update(dict.fromkeys(keys, found))
    return found


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)
