"""From kazoo's threads to the event loop: one request at a time, its result or a ``ZnodeError``.

The lowest part of ``KazooZnodes``. What kazoo's threads find is posted with ``call_soon_threadsafe``, and
dropped when the loop is closed. Losing the connection comes out as kazoo's own errors (``LOST``): what they
mean depends on whether the request was a read or a change, which the caller knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from kazoo import exceptions as kz

from herdpy.bookkeeper.errors import MetadataError
from herdpy.bookkeeper.metadata.znodes import (
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ZnodeVersionError,
)

_log = logging.getLogger("herdpy.bookkeeper.zookeeper")

LOST = (kz.ConnectionLoss, kz.ConnectionClosedError, kz.SessionExpiredError, kz.OperationTimeoutError)
"""Kazoo's errors that say nothing of what became of a request."""


class AsyncResult(Protocol):
    """What kazoo's asynchronous calls return."""

    exception: BaseException | None
    value: Any

    def rawlink(self, callback: Callable[[AsyncResult], None]) -> None:
        """Call back in kazoo's completion thread."""


class Bridge:
    """Requests handed to kazoo and not yet answered."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: set[asyncio.Future[Any]] = set()

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bring results to this loop."""
        self._loop = loop

    async def request(self, path: str, start: Callable[[], AsyncResult]) -> Any:
        """Hand one request to kazoo and wait for its result."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.add(future)
        try:
            start().rawlink(lambda result: self.post(_settle, future, result))
            return await future
        except kz.NoNodeError:
            raise NoNodeError(path) from None
        except kz.NodeExistsError:
            raise NodeExistsError(path) from None
        except kz.BadVersionError:
            raise ZnodeVersionError(path) from None
        except kz.NotEmptyError:
            raise NotEmptyError(path) from None
        except LOST:
            raise
        except kz.KazooException as refused:
            raise MetadataError(
                f"ZooKeeper refused an operation on {path}: {type(refused).__name__} {refused}"
            ) from refused
        finally:
            self._pending.discard(future)

    def post(self, call: Callable[..., object], *arguments: object) -> None:
        """Call something on the loop, from any thread, unless the loop is closed."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            _log.debug("the loop was closed before the ZooKeeper client")

    def fail_pending(self) -> None:
        """Answer what waits: kazoo's threads are about to end and will not."""
        for future in tuple(self._pending):
            if not future.done():
                future.set_exception(kz.ConnectionClosedError("closed"))


def _settle(future: asyncio.Future[Any], result: AsyncResult) -> None:
    if future.done():
        return
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)
