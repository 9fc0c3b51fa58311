"""One attempt at a partition: conform its rows, and store them in a ledger, at the leader, or in a file.

Few rows are stored nowhere: the attempt's message carries them to the driver (``gathering``).
Above ``conforming``. A sink takes the pieces of one Arrow IPC stream, and waits when it is ahead of who
stores them. What it made is part of nothing until the load is published. A stream that has not ended is
kept in memory as well: when bookies fail, it is written again to a ledger of those that are left.
"""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import google_crc32c
import grpc
import pyarrow as pa

from herdpy.bookkeeper import BookKeeper, BookKeeperError
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.detached import LoopThread
from herdpy.log.errors import LogWriteError
from herdpy.log.records import StagedPart
from herdpy.log.staging import StagedLedger, delete_staged
from herdpy.machine import sync_all
from herdpy.rpc import loads_pb2, loads_pb2_grpc
from herdpy.rpc.address import RemoteError
from herdpy_spark.writing.conforming import Conformer
from herdpy_spark.writing.plan import (
    CarriedBatch,
    DirectoryFiles,
    LoadError,
    ServerFiles,
    Staged,
    StagedFile,
    StagingLedgers,
    TaskRows,
    WriteMode,
    WritePlan,
)


class LoadLoop(LoopThread):
    """``with LoadLoop() as loop: loop.run(coroutine)``."""

    def __init__(self) -> None:
        super().__init__("herdpy-load")

    def close(self) -> None:
        """End what is still running, then the loop and its thread."""
        self.run(_end_tasks())
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


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


_WAITING_CHUNKS = 4
_LOOK_EVERY_S = 0.2


class Sink(Protocol):
    """Where the streams of one attempt at a partition go, one after the other.

    Attributes:
        part_bytes: a stream of this size is to be ended, and another one begun.
    """

    part_bytes: float

    def write(self, piece: bytes) -> None:
        """Add the next bytes; waits while too much is on its way. LoadError when they cannot be stored."""

    def finish(self, rows: int) -> Staged:
        """End a stream; returns where it is when everything is safe. LoadError."""

    def close(self) -> None:
        """Let go of connections; what was finished stays."""

    def abandon(self) -> None:
        """Remove all that was written, as far as can be now, and close. Never raises, for another error is
        on its way.
        """


def open_sink(plan: WritePlan, partition: int, task_attempt: int) -> Sink:
    """A new sink for an attempt at a partition. LoadError when there is no place to write to."""
    match plan.staging:
        case StagingLedgers() as place:
            return LedgerSink(place, plan.load_id)
        case ServerFiles() as place:
            return ServerSink(place, plan.load_id, plan.max_chunk_bytes)
        case DirectoryFiles(path):
            return FileSink(Path(path), plan.load_id, partition, task_attempt)


class ServerSink:
    """Sends the stream to the server that leads, which keeps it in a file. There is one stream only.

    gRPC's own thread takes the chunks, as fast as the server does; a few wait for it.
    """

    part_bytes = math.inf

    def __init__(self, place: ServerFiles, load_id: str, max_chunk_bytes: int) -> None:
        self._max_chunk_bytes = max_chunk_bytes
        self._crc = 0
        self._chunks: queue.Queue[Any] = queue.Queue(_WAITING_CHUNKS)
        self._channel = place.place.blocking_channel()
        stub: Any = loads_pb2_grpc.LoadsStub(self._channel)
        self._call = stub.Stage.future(iter(self._chunks.get, None), metadata=place.place.metadata)
        self._put(loads_pb2.StageChunk(load_id=load_id, tablespace=place.tablespace))

    def write(self, piece: bytes) -> None:
        """See Sink."""
        self._crc = google_crc32c.extend(self._crc, piece)
        size = self._max_chunk_bytes
        for at in range(0, len(piece), size):
            self._put(loads_pb2.StageChunk(data=piece[at : at + size]))

    def finish(self, rows: int) -> Staged:
        """See Sink."""
        self._put(loads_pb2.StageChunk(end=loads_pb2.StageEnd(crc32c=self._crc, rows=rows)))
        self._put(None)
        file = self._result()
        return StagedFile(file.id, file.size_bytes, file.crc32c, file.rows)

    def _put(self, chunk: Any) -> None:
        while True:
            if self._call.done():
                self._result()
                raise LoadError("the server ended a stream of rows before its end")
            try:
                self._chunks.put(chunk, timeout=_LOOK_EVERY_S)
                return
            except queue.Full:
                continue

    def _result(self) -> Any:
        try:
            return self._call.result()
        except grpc.RpcError as error:
            raise _refused(error) from None

    def abandon(self) -> None:
        """See Sink. A stream without its end leaves nothing; one with it is left to the server's sweep."""
        self._call.cancel()
        self.close()

    def close(self) -> None:
        """See Sink."""
        with suppress(queue.Empty):
            while True:
                self._chunks.get_nowait()
        self._chunks.put(None)  # who takes chunks ends
        self._channel.close()


def _refused(error: Any) -> LoadError:
    remote = RemoteError.of(error)
    return LoadError(f"rows cannot be staged: {remote.message}", remote.sqlstate)


class FileSink:
    """Writes a file below a database's directory, named by the task's attempt: no two write the same."""

    part_bytes = math.inf

    def __init__(self, directory: Path, load_id: str, partition: int, task_attempt: int) -> None:
        name = f"{load_id.encode().hex()}-{partition}-{task_attempt}.arrow"
        self._path = directory / name
        self._size_bytes = 0
        self._crc = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb")
        except OSError as error:
            raise LoadError(f"rows cannot be staged: {error}", "58030") from error

    def write(self, piece: bytes) -> None:
        """See Sink."""
        try:
            self._file.write(piece)
        except OSError as error:
            raise LoadError(f"rows cannot be staged: {error}", "58030") from error
        self._size_bytes += len(piece)
        self._crc = google_crc32c.extend(self._crc, piece)

    def finish(self, rows: int) -> Staged:
        """See Sink."""
        try:
            self._file.flush()
            sync_all(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise LoadError(f"rows cannot be staged: {error}", "58030") from error
        return StagedFile(str(self._path), self._size_bytes, self._crc, rows)

    def close(self) -> None:
        """See Sink."""

    def abandon(self) -> None:
        """See Sink."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


_END = struct.pack("<Ii", 0xFFFFFFFF, 0)


class StreamPieces:
    """Gives the bytes of a stream piece by piece: ``start``, ``batch`` again and again, ``end``.

    Attributes:
        rows, size_bytes, crc: of what was given so far; ``crc`` is CRC32C.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.rows = 0
        self.size_bytes = 0
        self.crc = 0

    def start(self) -> bytes:
        """The schema's message."""
        return self._counted(self._schema.serialize().to_pybytes())

    def batch(self, batch: CarriedBatch) -> bytes:
        """A batch's message."""
        self.rows += batch.rows
        return self._counted(batch.message)

    def end(self) -> bytes:
        """The mark of the stream's end."""
        return self._counted(_END)

    def _counted(self, piece: bytes) -> bytes:
        self.size_bytes += len(piece)
        self.crc = google_crc32c.extend(self.crc, piece)
        return piece


class PartWriter:
    """Writes batches as one stream, or several, to a sink that is opened for the first of them."""

    def __init__(self, schema: pa.Schema, open_: Callable[[], Sink]) -> None:
        self._schema = schema
        self._open = open_
        self._sink: Sink | None = None
        self._pieces: StreamPieces | None = None
        self._parts: list[Staged] = []

    def add(self, batch: CarriedBatch) -> None:
        """Write the next batch. LoadError: it cannot be stored."""
        if self._sink is None:
            self._sink = self._open()
        if self._pieces is None:
            self._pieces = StreamPieces(self._schema)
            self._sink.write(self._pieces.start())
        self._sink.write(self._pieces.batch(batch))
        if self._pieces.size_bytes >= self._sink.part_bytes:
            self._end_part(self._sink, self._pieces)

    def end(self) -> tuple[Staged, ...]:
        """The parts, when all of them are safe; none where there were no batches. LoadError."""
        if self._sink is not None:
            if self._pieces is not None:
                self._end_part(self._sink, self._pieces)
            self._sink.close()
        return tuple(self._parts)

    def _end_part(self, sink: Sink, pieces: StreamPieces) -> None:
        sink.write(pieces.end())
        self._parts.append(sink.finish(pieces.rows))
        self._pieces = None

    def abandon(self) -> None:
        """See Sink."""
        if self._sink is not None:
            self._sink.abandon()


def conformer_of(plan: WritePlan, partition: int | None = None) -> Conformer:
    """What makes a DataFrame's batches the plan's; rows to delete may have more columns than the key."""
    return Conformer(
        plan.columns,
        plan.constant_row(),
        key=plan.key,
        partition=partition,
        more=plan.mode is WriteMode.DELETE,
    )


def stage(
    plan: WritePlan,
    batches: Iterator[pa.RecordBatch],
    partition: int,
    task_attempt: int,
    *,
    carried_bytes: int = 0,
    open_sink: Callable[[WritePlan, int, int], Sink] = open_sink,
) -> TaskRows:
    """Stage a partition's rows as one stream, or several; nothing is made for a partition without rows.

    Args:
        carried_bytes: rows of at most so many bytes are not staged: what is returned carries them.

    Raises:
        RowError: a row does not fit the table.
        ColumnError: the columns do not.
        LoadError: the rows cannot be stored.
    """
    conformer = conformer_of(plan, partition)
    writer = PartWriter(conformer.schema, partial(open_sink, plan, partition, task_attempt))
    carried: list[CarriedBatch] = []
    room_bytes = carried_bytes
    try:
        for batch in batches:
            for slice_ in conformer.batches(batch, plan.max_chunk_bytes):
                carried.append(CarriedBatch(slice_.serialize().to_pybytes(), slice_.num_rows))
                room_bytes -= len(carried[-1].message)
                if room_bytes < 0:
                    for one in carried:
                        writer.add(one)
                    carried.clear()
        parts = writer.end()
    except BaseException:
        writer.abandon()
        raise
    return TaskRows(partition, task_attempt, conformer.rows, parts, tuple(carried))
