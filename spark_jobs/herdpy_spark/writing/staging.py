"""Where a task's stream of rows goes: a ledger, the server that leads, or a file. Above ``ledger_sink``.

A sink takes the pieces of one Arrow IPC stream, and waits when it is ahead of who stores them: that is how
Spark's reading of the rows is held back. What it made is part of nothing until the load is published.
"""

from __future__ import annotations

import math
import os
import queue
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import google_crc32c
import grpc

from herdpy.rpc import loads_pb2, loads_pb2_grpc
from herdpy.rpc.errors import RemoteError
from herdpy_spark.writing.errors import LoadError
from herdpy_spark.writing.ledger_sink import LedgerSink
from herdpy_spark.writing.messages import Staged, StagedFile
from herdpy_spark.writing.plan import DirectoryFiles, ServerFiles, StagingLedgers, WritePlan

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
            os.fsync(self._file.fileno())
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
