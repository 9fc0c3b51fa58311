"""How far a log is confirmed, as its leader reports it to followers: the client's half.

Beside ``snapshots``, over ``address``. A report is a number that a follower acts on, so it has a checksum:
one that is too high would have it read entries that were never confirmed. The call offers its reports at the
port of PostgreSQL's protocol, too (``subscription``), and they are taken there where that can be.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

import grpc
from google_crc32c import value as crc32c

from herdpy.log.lsn import LSN
from herdpy.rpc import logs_pb2, logs_pb2_grpc
from herdpy.rpc.address import GrpcAddress, RemoteError
from herdpy.rpc.positions import lsn_of
from herdpy.rpc.read_index import (
    FIRST_BYTE,
    ReadIndex,
    ReadIndexAsker,
    encode_question,
    is_read_index,
)
from herdpy.rpc.subscription import AtOnce, subscribed

_NUMBERS = struct.Struct(">qqq")
_MESSAGE = struct.Struct(">qqqI")
_LENGTH = struct.Struct(">I")


class LacReport(NamedTuple):
    """What a leader says.

    Attributes:
        epoch: of its term.
        confirmed: every entry of the log up to this one is confirmed.
        entries: the last ones up to there, as they are in their ledger; as many as were at hand.
    """

    epoch: int
    confirmed: LSN
    entries: tuple[bytes, ...] = ()

    def checksum(self, log_id: str) -> int:
        """What is sent with it, of the log with this id."""
        numbers = _NUMBERS.pack(self.epoch, *self.confirmed)
        checksum: int = crc32c(b"".join((log_id.encode(), numbers, self._framed_entries())))
        return checksum

    def _framed_entries(self) -> bytes:
        return b"".join([_LENGTH.pack(len(entry)) + entry for entry in self.entries])

    def encode(self, log_id: str) -> bytes:
        """As it is sent over a connection of its own."""
        return _MESSAGE.pack(self.epoch, *self.confirmed, self.checksum(log_id)) + self._framed_entries()

    @classmethod
    def decode(cls, data: bytes, log_id: str) -> LacReport:
        """What :meth:`encode` made. RemoteError DATA_LOSS: it is damaged, or of another log."""
        if len(data) < _MESSAGE.size:
            raise _damaged()
        epoch, ledger_id, entry_id, checksum = _MESSAGE.unpack_from(data)
        # Checked first: the lengths of entries are believed only then.
        if checksum != crc32c(b"".join((log_id.encode(), data[: _NUMBERS.size], data[_MESSAGE.size :]))):
            raise _damaged()
        return cls(epoch, LSN(ledger_id, entry_id), _entries(data, _MESSAGE.size))

    def checked(self, checksum: int, log_id: str) -> LacReport:
        """The report, which came with this checksum. RemoteError DATA_LOSS, as :meth:`decode`."""
        if checksum != self.checksum(log_id):
            raise _damaged()
        return self


def _entries(data: bytes, at: int) -> tuple[bytes, ...]:
    entries, size = [], len(data)
    while at < size:
        (length,) = _LENGTH.unpack_from(data, at)
        at += 4 + length
        entries.append(data[at - length : at])
    return tuple(entries)


def _damaged() -> RemoteError:
    return RemoteError(grpc.StatusCode.DATA_LOSS, "XX001", "a report is damaged, or of another log")


async def lac_reports(
    place: GrpcAddress,
    tablespace: str,
    log_id: str,
    sql: tuple[str, int] | None = None,
    asker: ReadIndexAsker | None = None,
) -> AsyncGenerator[LacReport, None]:
    """The reports of the node there, as they come; they end when it leads no more.

    Args:
        sql: host and port where the node speaks PostgreSQL's protocol; None: that is not known.
        asker: may ask there for read indexes; the answers come between the reports.

    Raises:
        RemoteError: it cannot be reached or does not lead; DATA_LOSS: a report is damaged, or of a log with
            another id.
        OSError: the file of its certificates cannot be read.
    """
    async with place.channel() as channel:
        stub: Any = logs_pb2_grpc.LogsStub(channel)
        stream = stub.ReportLac(logs_pb2.ReportLacRequest(tablespace=tablespace), metadata=place.metadata)
        try:
            async for answer in stream:
                confirmed = answer.confirmed
                report = LacReport(answer.epoch, lsn_of(confirmed))
                yield report.checked(answer.crc32c, log_id)
                if asker is not None and (sql is None or not answer.answers):
                    asker.connected(None)
                if answer.ticket and sql is not None:
                    begin = partial(_begin, asker if answer.answers else None)
                    at_once = None if asker is None else AtOnce(FIRST_BYTE, partial(_take, asker, log_id))
                    stream_there = subscribed(*sql, answer.ticket, place.tls_context(), begin, at_once)
                    async with aclosing(_reports_of(stream_there, log_id, asker)) as reports:
                        async for one in reports:
                            yield one
        except grpc.aio.AioRpcError as error:
            raise RemoteError.of(error) from error
        finally:
            stream.cancel()


def _begin(asker: ReadIndexAsker | None, send: Callable[[bytes], object]) -> None:
    """The connection is there: questions may be sent on it."""
    if asker is not None:
        asker.connected(lambda number: send(encode_question(number)))


def _take(asker: ReadIndexAsker, log_id: str, message: bytes) -> bool:
    """Give an answer to the asker when it arrives; a damaged one ends the stream in its turn."""
    try:
        index = ReadIndex.decode(message, log_id)
    except RemoteError:
        return False
    asker.answered(index)
    return True


async def _reports_of(
    messages: AsyncGenerator[bytes, None], log_id: str, asker: ReadIndexAsker | None
) -> AsyncGenerator[LacReport, None]:
    """The reports among the messages of a connection; the answers go to the asker."""
    try:
        async with aclosing(messages) as coming:
            async for message in coming:
                if asker is not None and is_read_index(message):
                    asker.answered(ReadIndex.decode(message, log_id))
                else:
                    yield LacReport.decode(message, log_id)
    finally:
        if asker is not None:
            asker.disconnected()
