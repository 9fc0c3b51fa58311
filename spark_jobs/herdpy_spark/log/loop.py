"""An event loop in a thread of its own, for code that has none: the BookKeeper client's home in a task.

Below ``bookies``. Coroutines are waited for by the calling thread; what an asynchronous generator gives
crosses in handfuls, the next one being fetched meanwhile, so that bookies and decoding work at the same time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_AT_ONCE_BYTES = 4 << 20
_HANDFULS_AHEAD = 2


class LoopThread:
    """The loop. Its methods are for other threads than its own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, or raises."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncIterator[T], size: Callable[[T], int]) -> Generator[T, None, None]:
        """What ``source`` gives; it is closed at the end, also when the taker stops early.

        Args:
            size: bytes of an item, by which what is fetched ahead is bounded.
        """
        pump = self.run(_Pump.start(source, size))
        try:
            while (items := pump.out.get()) is not None:
                if isinstance(items, BaseException):
                    raise items
                self._loop.call_soon_threadsafe(pump.room.release)
                yield from items
        finally:
            self.run(pump.stop())

    def close(self) -> None:
        """End the loop; nothing may run on it any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Pump(Generic[T]):
    """A task that takes items out of a generator and puts handfuls of them where a thread waits."""

    task: asyncio.Task[None]

    def __init__(self, source: AsyncIterator[T], size: Callable[[T], int]) -> None:
        self._source, self._size = source, size
        self.out: SimpleQueue[list[T] | BaseException | None] = SimpleQueue()
        self.room = asyncio.Semaphore(_HANDFULS_AHEAD)

    @classmethod
    async def start(cls, source: AsyncIterator[T], size: Callable[[T], int]) -> _Pump[T]:
        pump = cls(source, size)
        pump.task = asyncio.create_task(pump._run())
        return pump

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()

    async def _run(self) -> None:
        items: list[T] = []
        total = 0
        try:
            async for item in self._source:
                items.append(item)
                total += self._size(item)
                if total >= _AT_ONCE_BYTES:
                    await self._put(items)
                    items, total = [], 0
        except BaseException as error:  # noqa: BLE001 - who waits raises it
            self.out.put(items)  # what came before the error comes before it
            self.out.put(error)
            return
        await self._put(items)
        self.out.put(None)

    async def _put(self, items: list[T]) -> None:
        await self.room.acquire()
        self.out.put(items)
