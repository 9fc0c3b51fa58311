"""An asynchronous connection behind the blocking face, so that the blocking driver's tests can judge it.

Whatever is asked of it is asked on an event loop in a thread of its own, awaited where it can be.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import weakref
from types import GeneratorType

from herdpy import aio

_WRAPPED = (aio.AsyncConnection, aio.AsyncCursor, aio.AsyncStream, aio.AsyncRecordBatches)


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_debug(False)
        self._thread = threading.Thread(target=self._loop.run_forever, name="aio-tests")
        self._thread.start()
        self._faces: weakref.WeakValueDictionary[int, Blocking] = weakref.WeakValueDictionary()

    def run(self, coroutine):
        """What the coroutine returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(120)

    def close(self) -> None:
        """End it; nothing may be left on it."""
        left = self.run(_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert not left, left

    def face(self, value):
        """``value`` as the blocking driver would give it."""
        if isinstance(value, contextlib.AbstractAsyncContextManager) and not isinstance(value, _WRAPPED):
            return _Block(self, value)
        if not isinstance(value, _WRAPPED):
            return value
        face = self._faces.get(id(value))
        if face is None:
            face = self._faces[id(value)] = Blocking(self, value)
        return face


async def _others() -> list[str]:
    return [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]


class Blocking:
    """A connection, a cursor or a stream, whose calls block."""

    def __init__(self, loop: Loop, target) -> None:
        self.__dict__["_loop"] = loop
        self.__dict__["_target"] = target

    def __getattr__(self, name: str):
        target, loop = self._target, self._loop

        async def get():
            return getattr(target, name)

        value = loop.run(get())
        if not callable(value) or name == "row_factory" or inspect.isclass(value):
            return loop.face(value)

        def call(*arguments, **options):
            return loop.face(loop.run(_called(value, [_plain(one) for one in arguments], options)))

        return call

    def __setattr__(self, name: str, value) -> None:
        async def change():
            if name == "autocommit":
                await self._target.set_autocommit(value)
            else:
                setattr(self._target, name, value)

        self._loop.run(change())

    def __enter__(self):
        return self._loop.face(self._loop.run(self._target.__aenter__()))

    def __exit__(self, kind, error, trace):
        return self._loop.run(self._target.__aexit__(kind, error, trace))

    def __iter__(self):
        async def begin():
            aiter(self._target)

        self._loop.run(begin())
        return self

    def __next__(self):
        end = object()
        value = self._loop.run(anext(self._target, end))
        if value is end:
            raise StopIteration
        return value

    def __repr__(self) -> str:
        async def shown():
            return repr(self._target)

        return self._loop.run(shown()).replace("herdpy.aio.Async", "herdpy.")


class _Block:
    """A block such as a transaction's."""

    def __init__(self, loop: Loop, block) -> None:
        self._loop = loop
        self._block = block

    def __enter__(self):
        return self._loop.face(self._loop.run(self._block.__aenter__()))

    def __exit__(self, kind, error, trace):
        return self._loop.run(self._block.__aexit__(kind, error, trace))


async def _called(function, arguments, options):
    value = function(*arguments, **options)
    return await value if inspect.isawaitable(value) else value


def _plain(argument):
    if isinstance(argument, Blocking):
        return argument._target
    if isinstance(argument, GeneratorType):  # it may ask the driver itself, which the loop cannot wait for
        return list(argument)
    return argument


def connect(loop: Loop, *arguments, **options) -> Blocking:
    """As herdpy.connect."""

    async def opened():
        return await aio.connect(*arguments, **options)

    return loop.face(loop.run(opened()))
