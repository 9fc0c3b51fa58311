"""A log that lives on an event loop, for threads: what they call blocks until the loop has done it.

Between ``CommitLog``, whose methods block, and ``leader_log``, whose methods are awaited.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

from herdpy.log.commit_log import CommitLog
from herdpy.log.lsn import LSN

T = TypeVar("T")


class LoopLog(CommitLog):
    """To be made on the loop that it lives on.

    What is blocking in ``CommitLog`` has a twin with an a before its name, to be awaited on the loop. There
    the blocking one raises RuntimeError: it would wait for itself.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    @abstractmethod
    async def aflush(self) -> None:
        """As ``flush``."""

    @abstractmethod
    async def aroll(self) -> None:
        """As ``roll``."""

    @abstractmethod
    async def atrim(self, before: LSN) -> list[int]:
        """As ``trim``."""

    @abstractmethod
    async def aclose(self) -> None:
        """As ``close``."""

    def flush(self) -> None:
        self._from_thread(self.aflush())

    def roll(self) -> None:
        self._from_thread(self.aroll())

    def trim(self, before: LSN) -> list[int]:
        return self._from_thread(self.atrim(before))

    def close(self) -> None:
        self._from_thread(self.aclose())

    def _from_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is self._loop:
            coroutine.close()
            raise RuntimeError("this would block the loop: await the method with an a before its name")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
