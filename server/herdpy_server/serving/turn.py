"""The engine's turn where one loop thread does everything: being on the loop is having it.

Bottom of ``serving``. On the loop it costs one comparison. Any other thread that has to change what
all share gets it by a hand-shake: the loop comes to a stop between two callbacks, and stands still
for the length of the block.
"""

from __future__ import annotations

import asyncio
import threading


class LoopTurn:
    """The turn of a tablespace whose sessions all run on ``loop``. Made on the loop's thread.

    In another thread it must not be entered twice, and the block must not wait for anything that
    the loop does. It raises RuntimeError there when the loop is closed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._others = threading.Lock()  # one thread at a time has the loop stand still
        self._leave = threading.Lock()  # released by whoever has the turn; a new one each time

    def __enter__(self) -> None:
        if threading.get_ident() == self._thread:
            return
        self._others.acquire()
        try:
            came, leave = threading.Lock(), threading.Lock()
            came.acquire()
            leave.acquire()
            self._loop.call_soon_threadsafe(_stand_still, came, leave)
            came.acquire()
            self._leave = leave
        except BaseException:
            self._others.release()
            raise

    def __exit__(self, *exc_info: object) -> None:
        if threading.get_ident() == self._thread:
            return
        self._leave.release()
        self._others.release()


def _stand_still(came: threading.Lock, leave: threading.Lock) -> None:
    came.release()
    leave.acquire()
