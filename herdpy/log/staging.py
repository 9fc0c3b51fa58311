"""Rows of a load in ledgers of their own: written beside the log, read by whoever applies it, swept.

Above ``bookkeeper.ensembles`` and ``records``; imported by itself, as the package ``bookkeeper`` is.
A task of a load writes an Arrow IPC stream through a :class:`StagedLedger`, which cuts it into entries, and
hands the :class:`StagedPart` that it gets to whoever publishes the load: a ``LoadBatch`` of the log names it
then. Until that it is part of nothing, and may be abandoned; what nobody abandoned is found by its custom
metadata. They lack the key by which a log finds ledgers of its own, so a log's sweep leaves them alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from google_crc32c import extend as _crc32c

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.errors import (
    BookKeeperError,
    DigestMismatchError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from herdpy.bookkeeper.read import LedgerReader
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper.settings import (
    APPLICATION,
    FINAL,
    TABLESPACE,
    LedgerLogSettings,
    ReaderBackoff,
    create_sized,
)
from herdpy.log.errors import CorruptLedgerError, LogTrimmedError, LogWriteError
from herdpy.log.records import StagedPart

_log = logging.getLogger("herdpy.log.staging")

#: Keys of the custom metadata of staged ledgers; the value of the first is the log's id.
STAGED, LOAD, CREATED_US = "staged", "load", "created_us"
_ENTRY_BYTES = 1 << 20
_IN_FLIGHT = 8
_READ_PATIENCE_S = 10.0


@dataclass(slots=True, frozen=True)
class StagedLabel:
    """What a staged ledger's custom metadata say of it."""

    log_id: str
    tablespace: str
    load_id: str
    created_us: int

    @classmethod
    def of(cls, custom: Mapping[str, bytes]) -> StagedLabel | None:
        """That of a ledger with these custom metadata; None: it is no staged ledger."""
        try:
            return cls(
                custom[STAGED].decode(),
                custom[TABLESPACE].decode(),
                custom[LOAD].decode(),
                int(custom[CREATED_US]),
            )
        except (KeyError, ValueError):
            return None

    def encode(self) -> dict[str, bytes]:
        """The custom metadata."""
        return {
            APPLICATION: b"herdpy",
            STAGED: self.log_id.encode(),
            TABLESPACE: self.tablespace.encode(),
            LOAD: self.load_id.encode(),
            CREATED_US: str(self.created_us).encode(),
        }


class StagedLedger:
    """One part of a load while it is written; used by one task, on the client's loop.

    Attributes:
        ledger_id: the ledger.
        size_bytes: written so far.
    """

    def __init__(self, bk: BookKeeper, writer: LedgerWriter, entry_bytes: int) -> None:
        self.ledger_id = writer.ledger_id
        self.size_bytes = 0
        self._bk = bk
        self._writer = writer
        self._entry_bytes = entry_bytes
        self._rest = bytearray()
        self._crc = 0
        self._entries = 0
        self._in_flight: deque[asyncio.Future[int]] = deque()

    @classmethod
    async def create(
        cls, bk: BookKeeper, settings: LedgerLogSettings, *, log_id: str, tablespace: str, load_id: str
    ) -> StagedLedger:
        """Make a ledger for a part of a load, of as many bookies as the log's own ledgers have.

        Raises:
            LogWriteError: there are too few bookies, or ZooKeeper does not answer.
        """
        label = StagedLabel(log_id, tablespace, load_id, time.time_ns() // 1000)
        try:
            writer = await create_sized(bk, settings, label.encode())
        except BookKeeperError as error:
            raise LogWriteError(f"no ledger can be made to stage rows in: {error}") from error
        return cls(bk, writer, min(settings.max_entry_bytes, _ENTRY_BYTES))

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add the next bytes of the stream; waits while as much is on its way as may be.

        Raises:
            LogWriteError: bookies failed and none could replace them; abandon it and stage the rows again.
        """
        rest, size = self._rest, self._entry_bytes
        rest += data
        self.size_bytes += len(data)
        at = 0
        while len(rest) - at >= size:
            await self._send(bytes(rest[at : at + size]))
            at += size
        del rest[:at]

    async def finish(self, rows: int) -> StagedPart:
        """Write what is left, wait until all of it is safe, and close the ledger.

        Args:
            rows: how many the stream holds.

        Raises:
            LogWriteError: as :meth:`write`.
        """
        if self._rest:
            await self._send(bytes(self._rest))
            self._rest.clear()
        while self._in_flight:
            await self._oldest()
        try:
            await self._writer.close()
        except BookKeeperError as error:
            raise LogWriteError(f"staged ledger {self.ledger_id} cannot be closed: {error}") from error
        last = self._entries - 1
        if self._writer.last_add_confirmed != last:
            raise LogWriteError(
                f"staged ledger {self.ledger_id} was closed at {self._writer.last_add_confirmed}, not {last}"
            )
        return StagedPart(self.ledger_id, last, self.size_bytes, self._crc, rows)

    async def abandon(self) -> None:
        """Delete the ledger, finished or not, published by nobody; may be repeated.

        If it cannot be deleted now, the leader's sweep finds it later.
        """
        self._writer.abandon(BookKeeperError("the rows are no longer needed"))
        in_flight = list(self._in_flight)
        self._in_flight.clear()
        await asyncio.gather(*in_flight, return_exceptions=True)  # their failure is what was asked for
        await delete_staged(self._bk, [self.ledger_id])

    async def _send(self, entry: bytes) -> None:
        if len(self._in_flight) >= _IN_FLIGHT:
            await self._oldest()
        try:
            await self._writer.room()
            self._in_flight.append(self._writer.append_nowait(entry))
        except BookKeeperError as error:
            raise self._failed(error) from error
        self._entries += 1
        self._crc = _crc32c(self._crc, entry)

    async def _oldest(self) -> None:
        try:
            await self._in_flight.popleft()
        except BookKeeperError as error:
            raise self._failed(error) from error

    def _failed(self, error: BookKeeperError) -> LogWriteError:
        return LogWriteError(f"rows cannot be staged in ledger {self.ledger_id}: {error}")


async def read_part(
    bk: BookKeeper, password: bytes, part: StagedPart, *, patience_s: float = _READ_PATIENCE_S
) -> AsyncGenerator[bytes, None]:
    """The bytes of a part, entry by entry. They are only known to be right when all of them were given.

    Args:
        password: of the log's ledgers.
        patience_s: how long bookies or ZooKeeper are waited for.

    Raises:
        LogTrimmedError: the ledger is gone.
        CorruptLedgerError: it is not what the part says.
        LogUnavailableError: bookies or ZooKeeper did not answer for ``patience_s``.
    """
    patience = ReaderBackoff(patience_s)
    entry_id = size_bytes = crc = 0
    while entry_id <= part.last_entry_id:
        try:
            reader = await bk.open_ledger(part.ledger_id, password)
            try:
                _check_end(reader, part)
                async with aclosing(reader.read(entry_id, part.last_entry_id)) as entries:
                    async for raw in entries:
                        patience.reset()
                        entry_id += 1
                        size_bytes += len(raw.data)
                        crc = _crc32c(crc, raw.data)
                        yield raw.data
            finally:
                await reader.close()
        except NoSuchLedgerError as error:
            raise _gone(part) from error
        except NoSuchEntryError as error:
            await _check_there(bk, part)
            raise CorruptLedgerError(part.ledger_id, error.entry_id, "", str(error)) from error
        except DigestMismatchError as error:
            raise CorruptLedgerError(part.ledger_id, error.entry_id, "", str(error)) from error
        except FINAL:
            raise
        except BookKeeperError as error:
            await patience.wait(error)
    if (size_bytes, crc) != (part.size_bytes, part.crc):
        reason = (
            f"its {size_bytes} bytes have CRC {crc:08x}, the load says {part.size_bytes} and {part.crc:08x}"
        )
        raise CorruptLedgerError(part.ledger_id, None, "", reason)


def _check_end(reader: LedgerReader, part: StagedPart) -> None:
    if not reader.is_closed or reader.last_add_confirmed != part.last_entry_id:
        is_closed = "closed" if reader.is_closed else "open"
        reason = f"it is {is_closed} at {reader.last_add_confirmed}, the load says {part.last_entry_id}"
        raise CorruptLedgerError(part.ledger_id, None, "", reason)


async def _check_there(bk: BookKeeper, part: StagedPart) -> None:
    """Entries that no bookie has are missing because the ledger was deleted, or they are lost."""
    try:
        await bk.ledger_metadata(part.ledger_id)
    except NoSuchLedgerError as error:
        raise _gone(part) from error


def _gone(part: StagedPart) -> LogTrimmedError:
    return LogTrimmedError(f"staged ledger {part.ledger_id} of a load is gone: it was deleted with the log")


async def delete_staged(bk: BookKeeper, ledger_ids: Iterable[int]) -> list[int]:
    """Delete ledgers; those that are gone now. What cannot be deleted is logged, and is there for a sweep."""
    gone = []
    for ledger_id in ledger_ids:
        try:
            await bk.delete_ledger(ledger_id)
        except NoSuchLedgerError:
            pass
        except BookKeeperError as error:
            _log.warning(
                "a staged ledger could not be deleted", extra={"ledger_id": ledger_id, "error": str(error)}
            )
            continue
        gone.append(ledger_id)
    return gone


async def sweep_staged(
    bk: BookKeeper,
    log_id: str,
    *,
    older_than_s: float,
    is_needed: Callable[[int], bool],
    now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
) -> list[int]:
    """Delete a log's staged ledgers that are so old and not needed; their ids. For the log's leader.

    It lists all of the cluster's ledgers.

    Args:
        older_than_s: younger ones may belong to loads that are still going on.
        is_needed: whether a LoadBatch that is in the log, or is about to be, names a ledger; asked right
            before it is deleted.
    """
    deleted = []
    for ledger_id, known in (await bk.custom_metadata()).items():
        label = StagedLabel.of(known)
        if label is None or label.log_id != log_id:
            continue
        try:
            custom = (await bk.ledger_metadata(ledger_id)).custom_metadata
        except BookKeeperError:
            continue  # gone meanwhile
        is_old = now_us() - label.created_us > older_than_s * 1e6
        if custom == known and is_old and not is_needed(ledger_id):
            deleted += await delete_staged(bk, [ledger_id])
    return deleted
