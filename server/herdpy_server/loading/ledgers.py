"""Parts of loads in ledgers of BookKeeper: where to stage them, how they are read, when they go.

Beside ``files``. A task of its own reads ahead, a few batches at most; who publishes takes from that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from herdpy.bookkeeper import BookKeeper, BookKeeperError, NoSuchLedgerError
from herdpy.codec.arrow_stream import ArrowStreamError, ArrowStreamReader
from herdpy.log import LogTrimmedError
from herdpy.log.bookkeeper import LedgerLogSettings
from herdpy.log.errors import CorruptLedgerError, LogError
from herdpy.log.records import StagedPart
from herdpy.log.staging import StagedLabel, delete_staged, read_part, sweep_staged
from herdpy.log.wait import Wait
from herdpy_server.loading.files import check_rows, no_stream
from herdpy_server.loading.rows import MAX_MESSAGE_BYTES, StagedBatch
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.loads")

KEPT_S = 86_400.0
"""A staged ledger that no load has published for so long is removed."""
_AHEAD = 4


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where a tablespace's loads are staged.

    Attributes:
        zookeeper, ledgers_root: as writers reach BookKeeper.
        log_id: of the log that publishes them.
        is_needed: whether the log names a ledger, or is about to; asked before one is removed.
    """

    bk: BookKeeper
    settings: LedgerLogSettings
    zookeeper: str
    ledgers_root: str
    log_id: str
    is_needed: Callable[[int], bool]

    async def check(self, load_id: str, parts: Sequence[StagedPart]) -> None:
        """SqlError 22023 unless all ledgers were staged for this load, and each is named once."""
        if len({part.ledger_id for part in parts}) != len(parts):
            raise SqlError("22023", "a load names a staged ledger twice")
        for number, part in enumerate(parts, 1):
            label = await self._label(part.ledger_id)
            if label is None:
                raise _gone(number, part)
            if (label.log_id, label.load_id) != (self.log_id, load_id):
                raise SqlError("22023", f"ledger {part.ledger_id} was not staged for load {load_id}")

    async def _label(self, ledger_id: int) -> StagedLabel | None:
        """What a ledger's metadata say; None: it is not there, or no staged one. SqlError 08001."""
        try:
            metadata = await self.bk.ledger_metadata(ledger_id)
        except NoSuchLedgerError:
            return None
        except BookKeeperError as error:
            raise SqlError("57P03", "BookKeeper does not answer", detail=str(error)) from error
        return StagedLabel.of(metadata.custom_metadata)

    async def remove(self, load_id: str, ledger_ids: Iterable[int]) -> None:
        """Remove those of the ledgers that were staged for this load, and that nobody needs."""
        for ledger_id in ledger_ids:
            label = await self._label(ledger_id)
            if label is None or (label.log_id, label.load_id) != (self.log_id, load_id):
                continue
            if not self.is_needed(ledger_id):
                await delete_staged(self.bk, [ledger_id])

    async def sweep(self) -> list[int]:
        """Remove what nobody published, or needs any more; their ids. BookKeeperError."""
        gone = await sweep_staged(self.bk, self.log_id, older_than_s=KEPT_S, is_needed=self.is_needed)
        if gone:
            logger.info("removed staged ledgers that are not used", extra={"ledgers": gone})
        return gone


class LedgerParts:
    """See ``Source``: the rows of parts, one part after the other. To be made on the loop."""

    def __init__(self, place: LedgerPlace, load_id: str, parts: Sequence[StagedPart]) -> None:
        self.rows: int | None = sum(part.rows for part in parts)
        self._place = place
        self._load_id = load_id
        self._parts = parts
        self._ready: list[StagedBatch | BaseException | None] = []
        self._wanted: Wait[None] | None = None
        self._room = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def next(self) -> StagedBatch | None:
        """See Source."""
        if self._reading is None:
            loop = asyncio.get_running_loop()
            self._reading = loop.create_task(self._read(), name=f"load {self._load_id}")
        while not self._ready:
            self._wanted = Wait()
            await self._wanted
        one = self._ready.pop(0)
        self._room.set()
        if isinstance(one, BaseException):
            raise one
        return one

    async def close(self) -> None:
        """See Source."""
        if self._reading is None:
            return
        self._reading.cancel()
        over: Wait[None] = Wait()
        self._reading.add_done_callback(lambda _task: over.resolve(None))
        await over

    async def _read(self) -> None:
        try:
            await self._place.check(self._load_id, self._parts)
            for number, part in enumerate(self._parts, 1):
                await self._read_part(number, part)
            self._give(None)
        except (SqlError, LogError) as error:
            self._give(error)
        except Exception as error:  # noqa: BLE001 - handed to the load that waits
            self._give(error)

    async def _read_part(self, number: int, part: StagedPart) -> None:
        stream, rows = ArrowStreamReader(MAX_MESSAGE_BYTES), 0
        try:
            async with aclosing(read_part(self._place.bk, self._place.settings.password, part)) as pieces:
                async for data in pieces:
                    for batch in stream.feed(data):
                        while len(self._ready) >= _AHEAD:
                            self._room.clear()
                            await self._room.wait()
                        self._give(StagedBatch(batch, number, rows))
                        rows += batch.num_rows
        except LogTrimmedError as error:
            raise _gone(number, part) from error
        except CorruptLedgerError as error:
            raise SqlError(
                "XX001", f"part {number} of the load is not what was staged", detail=str(error)
            ) from error
        except ArrowStreamError as error:
            raise no_stream(number, str(error)) from error
        if stream.has_rest or stream.schema is None:
            raise no_stream(number, "It ends in the middle of a message.")
        check_rows(number, rows, part.rows)

    def _give(self, one: StagedBatch | BaseException | None) -> None:
        self._ready.append(one)
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.resolve(None)


def _gone(number: int, part: StagedPart) -> SqlError:
    return SqlError(
        "58P01",
        f"part {number} of the load, ledger {part.ledger_id}, is not there: it was removed",
        hint="Begin again, and stage all parts.",
    )
