"""How a read reaches a bookie: the one place that knows whether that takes a callback or a coroutine.

Between ``entry_read`` and the bookie layer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from herdpy.bookkeeper.errors import BookKeeperError

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import Bookie


class ReplySink(Protocol):
    """Who gets the answer of a read, once, never from within ``send_read``: as a future would."""

    def done(self) -> bool:
        """Whether nobody waits for it any more."""

    def set_result(self, reply: object) -> None:
        """The reply's body."""

    def set_exception(self, error: BaseException) -> None:
        """Why there is none."""


_running: set[asyncio.Task[None]] = set()


def send_read(
    bookie: Bookie, ledger_id: int, entry_id: int, sink: ReplySink, fence_key: bytes | None
) -> None:
    """Ask a bookie for an entry; with a fence key, fence the ledger there as well."""
    task = asyncio.get_running_loop().create_task(_read(bookie, ledger_id, entry_id, sink, fence_key))
    _running.add(task)
    task.add_done_callback(_running.discard)


async def _read(
    bookie: Bookie, ledger_id: int, entry_id: int, sink: ReplySink, fence_key: bytes | None
) -> None:
    try:
        reply = await bookie.read(ledger_id, entry_id, fence_key=fence_key)
    except BookKeeperError as error:
        sink.set_exception(error)
    else:
        sink.set_result(reply)
