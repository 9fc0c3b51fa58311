"""What a log knows of an LSN: whose it is, the running CRC there, when the newest transaction was committed.

Beside ``snapshot``, on ``herdpy.log``. Snapshots carry it, so that a reader can tell whether the log that he
has goes on from them, and which one is old enough.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Protocol

from herdpy.log import LogEntry, LogError
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.lsn import LSN
from herdpy_server.publishing.snapshot import Moment

_TIME = struct.Struct(">q")
_SPANS = (1, 8, 64)
"""Of how many entries the newest times are looked for in: most have one of their own."""


class Readable(Protocol):
    """What is asked of a log."""

    def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]: ...


async def moment_of(log: Readable, state: LedgerListState, lsn: LSN, now_us: int) -> Moment:
    """What belongs to ``lsn``.

    Args:
        state: the log's ledger list.
        now_us: the time that is given where the log does not tell one, because it is trimmed there.
    """
    crc = state.base_crc if lsn == state.base else None
    if lsn.entry_id < 0:
        return Moment(state.log_id, crc, now_us)
    for span in _SPANS:
        after = _before(state, lsn, span)
        if after is None:
            continue
        try:
            crc, time_us = await _newest(log, after, lsn)
        except LogError:  # it is trimmed there, or cannot be read now: the snapshot is as good without
            continue
        if time_us is not None:
            return Moment(state.log_id, crc, time_us)
        if lsn.entry_id < span:
            break
    return Moment(state.log_id, crc, now_us)


def _before(state: LedgerListState, lsn: LSN, span: int) -> LSN | None:
    """The position to read after, for ``span`` entries to ``lsn`` or all of its ledger."""
    if lsn.entry_id >= span:
        return LSN(lsn.ledger_id, lsn.entry_id - span)
    before = state.base
    for ledger in state.ledgers:
        if ledger.ledger_id == lsn.ledger_id:
            return before
        if ledger.last_entry_id >= 0:
            before = ledger.last
    return None


async def _newest(log: Readable, after: LSN, upto: LSN) -> tuple[int | None, int | None]:
    """The running CRC at ``upto``, and the newest time of what took effect after ``after``."""
    crc: int | None = None
    newest: int | None = None
    begun: int | None = None
    async with aclosing(log.read(after, upto)) as entries:  # type: ignore[type-var]
        async for _lsn, entry in entries:
            crc = entry.header.crc
            for part in entry.parts:
                if part.first:
                    begun = _TIME.unpack_from(part.data)[0] if len(part.data) >= _TIME.size else None
                if part.last and begun is not None:
                    newest = begun if newest is None else max(newest, begun)
    return crc, newest
