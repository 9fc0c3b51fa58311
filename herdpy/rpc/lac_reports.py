"""How far a log is confirmed, as its leader reports it to followers: the client's half.

Beside ``snapshots``, over ``address``. A report is a number that a follower acts on, so it has a checksum:
one that is too high would have it read entries that were never confirmed.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import grpc
from google_crc32c import value as crc32c

from herdpy.log.lsn import LSN
from herdpy.rpc import logs_pb2, logs_pb2_grpc
from herdpy.rpc.address import GrpcAddress, RemoteError

_NUMBERS = struct.Struct(">qqq")


class LacReport(NamedTuple):
    """What a leader says.

    Attributes:
        epoch: of its term.
        confirmed: every entry of the log up to this one is confirmed.
    """

    epoch: int
    confirmed: LSN

    def checksum(self, log_id: str) -> int:
        """What is sent with it, of the log with this id."""
        checksum: int = crc32c(log_id.encode() + _NUMBERS.pack(self.epoch, *self.confirmed))
        return checksum


async def lac_reports(place: GrpcAddress, tablespace: str, log_id: str) -> AsyncGenerator[LacReport, None]:
    """The reports of the node there, as they come; they end when it leads no more.

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
                report = LacReport(answer.epoch, LSN(confirmed.ledger_id, confirmed.entry_id))
                if answer.crc32c != report.checksum(log_id):
                    raise RemoteError(
                        grpc.StatusCode.DATA_LOSS, "XX001", "a report is damaged, or of another log"
                    )
                yield report
        except grpc.aio.AioRpcError as error:
            raise RemoteError.of(error) from error
        finally:
            stream.cancel()
