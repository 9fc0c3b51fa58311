"""When connections end without being closed: at exit, when forgotten, after a fork.

* At exit what is still open is closed, quietly: the interpreter ends, the log is whole.
* A connection that is collected while open warns (ResourceWarning) and is closed by a thread of
  its own. Collection can strike anywhere, also inside the engine, where closing at once would
  wait for the turn that this very thread has.
* A forked child shares the parent's files but not its threads or locks: it must not touch the
  parent's database. Its copies of the connections are made useless, each says so when used.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Protocol

from herdpy.dbapi.link import Link
from herdpy.dbapi.shared_link import SharedLink

_open: weakref.WeakSet[SharedLink] = weakref.WeakSet()
_closing: set[threading.Thread] = set()
_inherited: list[Link] = []


class Closable(Protocol):
    """What a collected object leaves behind: a connection, or its link."""

    def close(self) -> None: ...


def opened(link: SharedLink) -> None:
    """The connection of ``link`` is open and wants to be closed at exit."""
    _open.add(link)


def closed(link: SharedLink) -> None:
    """It was closed by its owner."""
    _open.discard(link)


def abandon(link: Closable) -> None:
    """Close what a collected object had, soon and in another thread."""

    def run() -> None:
        try:
            link.close()
        finally:
            _closing.discard(thread)

    thread = threading.Thread(target=run, name="herdpy-close", daemon=True)
    _closing.add(thread)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends: whatever is left, the log is whole
        _closing.discard(thread)


def settle(timeout_s: float | None = None) -> None:
    """Wait until the connections that were collected while open are closed."""
    for thread in list(_closing):
        thread.join(timeout_s)


def _at_exit() -> None:
    for link in list(_open):
        link.close_at_exit()
    settle(timeout_s=10)


def _in_child() -> None:
    # Kept: the end of a link must not touch what the parent uses.
    _inherited.extend(link.disown() for link in list(_open))
    _open.clear()
    _closing.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
