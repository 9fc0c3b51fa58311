"""The ledger list of a log for those who only read it: watched, and read again now and then.

Above ``znode_list``, below ``followed_log``. A watch that says nothing costs no more than the time to the
next reading; ZooKeeper that does not answer is waited for as long as ``read_patience_s``.
"""

from __future__ import annotations

import asyncio
import logging

from herdpy.bookkeeper.errors import SessionExpiredError, ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.znodes import Watch
from herdpy.log.bookkeeper.patience import PAUSE_FIRST_S, PAUSE_MAX_S
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList
from herdpy.log.errors import CorruptLedgerError, LogClosedError, LogError, LogUnavailableError
from herdpy.log.ledger_list import LedgerListState

_log = logging.getLogger("herdpy.log.followed")


class FollowedList:
    """The list of one tablespace, as it changes. All methods are called on the client's loop.

    Attributes:
        known: the list as it was last seen; None before.
        changed: set, and replaced by another, when something was heard of or it was closed.
    """

    def __init__(self, ledger_list: ZnodeLedgerList, settings: LedgerLogSettings) -> None:
        self.known: LedgerListState | None = None
        self.changed = asyncio.Event()
        self._list = ledger_list
        self._settings = settings
        self._bad: LogError | None = None
        self._watch: Watch | None = None
        self._closed = False

    async def state(self) -> LedgerListState:
        """The list as it is known here, which is watched from now on; read, if it never was.

        Raises:
            CorruptLedgerError: it is damaged.
            LogClosedError: it is gone, or another log's.
            LogUnavailableError: ZooKeeper did not answer in time.
        """
        if self._bad is not None:
            raise self._bad
        if self._watch is None and not self._closed:
            self._watch = self._list.watch(self._told)
        if self.known is None:
            return await self.refresh()
        return self.known

    async def newer(self, version: int) -> bool:
        """Wait for a version newer than this; False: the list was closed before there was one.

        Errors as ``state``.
        """
        while not self._closed:
            if (await self.state()).version > version:
                return True
            changed = self.changed
            try:
                async with asyncio.timeout(self._settings.follow_interval_s):
                    await changed.wait()
            except TimeoutError:
                try:
                    await self.refresh()
                except LogUnavailableError as error:
                    _log.warning("the ledger list cannot be read", extra={"error": str(error)})
        return False

    async def refresh(self) -> LedgerListState:
        """Read it now. Errors as ``state``."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._settings.read_patience_s
        pause_s = PAUSE_FIRST_S
        while True:
            known = self.known is not None and self.known.version > 0
            try:
                state = await self._list.read()
                if state is not None or known:
                    break
                if self.known is None or not self.known.version:
                    break
                # The list came to be while this read was on its way: look again.
            except (ZooKeeperUnavailableError, SessionExpiredError) as error:
                if loop.time() + pause_s > deadline_s:
                    raise LogUnavailableError(f"the ledger list cannot be read: {error}") from error
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
        self._heard(state)
        if self._bad is not None:
            raise self._bad
        assert self.known is not None
        return self.known

    def _told(self, state: LedgerListState | CorruptLedgerError | None) -> None:
        if state is not None:  # that it is gone is believed only when it is read
            self._heard(state)

    def _heard(self, state: LedgerListState | CorruptLedgerError | None) -> None:
        known = self.known
        if isinstance(state, CorruptLedgerError):
            self._bad = state
        elif state is None:
            if known is not None and known.version:
                self._bad = LogClosedError("the ledger list is gone: the log was dropped")
            self.known = self.known or LedgerListState(0, "")
        elif known is not None and known.log_id not in ("", state.log_id):
            self._bad = LogClosedError("the ledger list is another log's: this one was dropped")
        elif known is None or state.version > known.version:
            self.known = state
        else:
            return
        self.notify()

    def notify(self) -> None:
        """Wake those who wait for ``changed``."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def close(self) -> None:
        """Watch no more, and let go of those who wait; may be repeated."""
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self.notify()
