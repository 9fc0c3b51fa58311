"""Those who want to be told of something, until they cancel."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, MutableMapping
from typing import Generic, ParamSpec

from herdpy.bookkeeper.metadata.znodes import Watch

P = ParamSpec("P")


class Listeners(Generic[P]):
    """Callbacks in the order they came. What one of them raises is the loop's to report; the others go on."""

    def __init__(self) -> None:
        self._all: dict[object, Callable[P, None]] = {}

    def add(self, callback: Callable[P, None]) -> Watch:
        """Tell this one, too, until it cancels."""
        key = object()
        self._all[key] = callback
        return _Cancellation(self._all, key)

    def tell(self, *arguments: P.args, **named: P.kwargs) -> None:
        """Call each back, soon; who cancels before that is not called."""
        loop = asyncio.get_running_loop()
        for key, callback in self._all.items():
            loop.call_soon(self._call, key, functools.partial(callback, *arguments, **named))

    def clear(self) -> None:
        """Tell nobody any more."""
        self._all.clear()

    def _call(self, key: object, call: Callable[[], None]) -> None:
        if key in self._all:
            call()


class _Cancellation:
    def __init__(self, everyone: MutableMapping[object, Callable[..., None]], key: object) -> None:
        self._everyone = everyone
        self._key = key

    def cancel(self) -> None:
        self._everyone.pop(self._key, None)
