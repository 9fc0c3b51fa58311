"""The ledger list in a znode, changed by compare-and-set on the znode's version. Above ``list_format``.

A list's version is the znode's plus one, so that 0 means "no list yet". A write ends only when it is
known what became of it: the reply to a change may be lost with a connection, then the same change is
asked for again, under the same version. Either it is made now, or the version has moved on: then the
tag of the list that is there says whether it was this very change that moved it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import replace

from herdpy.bookkeeper.errors import SessionExpiredError, ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.znodes import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    Watch,
    Znode,
    Znodes,
)
from herdpy.log.bookkeeper.list_format import decode_list, encode_list
from herdpy.log.errors import CorruptLedgerError, LedgerListConflictError
from herdpy.log.ledger_list import LedgerListState

_log = logging.getLogger("herdpy.log.ledger_list")
_PASSING = (ZooKeeperUnavailableError, SessionExpiredError)
_RETRY_S = 0.1


class ZnodeLedgerList:
    """The ledger list of one tablespace.

    Args:
        znodes: a started session.
        path: of the list; its parents are made with it.
    """

    def __init__(self, znodes: Znodes, path: str) -> None:
        self._znodes = znodes
        self.path = path

    async def read(self) -> LedgerListState | None:
        """The list as some server of ZooKeeper has it; None when there is none.

        Raises:
            CorruptLedgerError: the znode holds something else.
            ZooKeeperUnavailableError: no server answers.
        """
        found = await self._tagged()
        return found[0] if found else None

    async def write(self, state: LedgerListState, expected_version: int) -> LedgerListState:
        """Replace version ``expected_version`` (0: no list) by ``state``; returns it, versioned.

        Goes on until the outcome is known, however long ZooKeeper is away; bound it with
        ``asyncio.timeout``, then the outcome is unknown.

        Raises:
            LedgerListConflictError: the list is at a later version. This change was not made, or, if a
                reply was lost, it was and another one was made on top of it.
        """
        tag = os.urandom(8).hex()
        data = encode_list(state, tag)
        while True:
            try:
                return replace(state, version=await self._put(data, expected_version) + 1)
            except NoNodeError:
                raise LedgerListConflictError("the ledger list is gone: the log was dropped") from None
            except (BadVersionError, NodeExistsError):
                try:
                    found = await self._tagged()
                except _PASSING as error:
                    _log.warning("the ledger list cannot be read back", extra=self._extra(error))
                else:
                    if found is not None and found[1] == tag:
                        return found[0]
                    if found is not None and found[0].version > expected_version:
                        raise LedgerListConflictError(
                            f"the ledger list is at version {found[0].version}, not {expected_version}:"
                            " another node writes to this log"
                        ) from None
                    # The server that was read lags behind the one that refused.
            except _PASSING as error:
                _log.warning("unknown whether the ledger list was written", extra=self._extra(error))
            await asyncio.sleep(_RETRY_S)

    def watch(self, callback: Callable[[LedgerListState | CorruptLedgerError | None], None]) -> Watch:
        """Call back with the list now (soon), and after every change of it; see ``Znodes.watch_data``."""

        def changed(znode: Znode | None) -> None:
            state: LedgerListState | CorruptLedgerError | None = None
            if znode is not None and znode.data:
                try:
                    state, _ = decode_list(znode.data, znode.version + 1, self.path)
                except CorruptLedgerError as error:
                    state = error
            callback(state)

        return self._znodes.watch_data(self.path, changed)

    async def _tagged(self) -> tuple[LedgerListState, str] | None:
        try:
            znode = await self._znodes.get(self.path)
        except NoNodeError:
            return None
        if not znode.data:
            return None
        return decode_list(znode.data, znode.version + 1, self.path)

    async def _put(self, data: bytes, expected_version: int) -> int:
        """The znode's new version."""
        znodes = self._znodes
        if expected_version:
            return await znodes.set(self.path, data, expected_version - 1)
        try:
            await znodes.create(self.path, data, make_parents=True)
        except NodeExistsError:
            znode = await znodes.get(self.path)
            if znode.data:
                raise
            return await znodes.set(self.path, data, znode.version)  # made empty, by whoever laid it out
        return 0

    def _extra(self, error: Exception) -> dict[str, str]:
        return {"path": self.path, "error": str(error)}
