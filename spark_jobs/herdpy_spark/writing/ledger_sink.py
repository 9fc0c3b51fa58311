"""A task's rows in ledgers of their own, which it writes to the bookies. Above ``plan`` and ``loop``.

A stream that has not ended is kept in memory as well: when bookies fail and none can replace them, it is
written again to a ledger of those that are left. So streams are short, and there are several of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from herdpy.bookkeeper import BookKeeper, BookKeeperError
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.errors import LogWriteError
from herdpy.log.load_records import StagedPart
from herdpy.log.staging import StagedLedger, delete_staged
from herdpy_spark.writing.errors import LoadError
from herdpy_spark.writing.loop import LoadLoop
from herdpy_spark.writing.plan import StagingLedgers

_log = logging.getLogger("herdpy_spark.staging")
T = TypeVar("T")
PART_BYTES = 32 << 20
PATIENCE_S = 60.0
_PAUSE_S = 0.5


class LedgerSink:
    """See ``staging.Sink``."""

    part_bytes: float = PART_BYTES

    def __init__(self, place: StagingLedgers, load_id: str, *, patience_s: float = PATIENCE_S) -> None:
        """Connect; LoadError when ZooKeeper does not answer.

        Args:
            patience_s: how long bookies are tried.
        """
        self._place = place
        self._load_id = load_id
        self._patience_s = patience_s
        self._ledger: StagedLedger | None = None
        self._kept: list[bytes] = []
        self._finished: list[int] = []
        self._loop = LoadLoop()
        self._bk = BookKeeper(f"zk://{place.zookeeper}{place.root}")
        try:
            self._loop.run(self._bk.open())
        except BookKeeperError as error:
            self.close()
            raise LoadError(f"rows cannot be staged: {error}") from error
        except BaseException:
            self.close()
            raise

    def write(self, piece: bytes) -> None:
        """See Sink."""
        if self._ledger is None:
            self._kept.append(piece)
            self._patiently(self._write_again)
            return
        self._kept.append(piece)
        ledger = self._ledger
        try:
            self._loop.run(ledger.write(piece))
        except LogWriteError as error:
            _log.warning("staged rows are written again", extra={"error": str(error)})
            self._patiently(self._write_again)

    def finish(self, rows: int) -> StagedPart:
        """See Sink."""
        part = self._patiently(lambda: self._finish(rows))
        self._finished.append(part.ledger_id)
        self._ledger = None
        self._kept.clear()
        return part

    def _patiently(self, do: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What ``do`` returns, again and again while it fails; LoadError when patience is over."""
        until = time.monotonic() + self._patience_s
        while True:
            try:
                return self._loop.run(do())
            except LogWriteError as error:
                if time.monotonic() >= until:
                    raise LoadError(str(error)) from error
                _log.warning("staged rows are written again", extra={"error": str(error)})
                time.sleep(_PAUSE_S)
                self._drop()

    async def _finish(self, rows: int) -> StagedPart:
        if self._ledger is None:
            await self._write_again()
        assert self._ledger is not None
        return await self._ledger.finish(rows)

    async def _write_again(self) -> None:
        """All of the stream so far, to a new ledger."""
        if self._ledger is not None:
            await self._ledger.abandon()
            self._ledger = None
        self._ledger = await self._new()
        for piece in self._kept:
            await self._ledger.write(piece)

    async def _new(self) -> StagedLedger:
        place = self._place
        settings = LedgerLogSettings(
            tablespace=place.tablespace,
            ensemble=place.ensemble,
            write_quorum=place.write_quorum,
            ack_quorum=place.ack_quorum,
            strict=place.strict,
            password=place.password,
        )
        return await StagedLedger.create(
            self._bk, settings, log_id=place.log_id, tablespace=place.tablespace, load_id=self._load_id
        )

    def _drop(self) -> None:
        """Give up the ledger that failed; the leader's sweep finds what cannot be deleted now."""
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            self._loop.run(ledger.abandon())

    def abandon(self) -> None:
        """See Sink."""
        try:
            self._drop()
            self._loop.run(delete_staged(self._bk, self._finished))
        except Exception as error:  # noqa: BLE001 - the leader's sweep finds the ledgers
            _log.warning("staged ledgers were left", extra={"error": str(error)})
        finally:
            self.close()

    def close(self) -> None:
        """See Sink."""
        try:
            self._loop.run(self._bk.close())
        finally:
            self._loop.close()
