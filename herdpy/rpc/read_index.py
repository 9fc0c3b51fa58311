"""How far a log is now: a follower's question to its leader, and the answer, as messages.

Beside ``lac_reports``, on whose connection they travel (docs/protocol.md): a question is a number, and the
answer differs from a report in its first byte. Raft calls such a position the read index: a replica that
has applied it has everything that anybody was answered before the question was sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple, Protocol

import grpc
from google_crc32c import value as crc32c

from herdpy.log.lsn import LSN
from herdpy.rpc.address import RemoteError

_QUESTION = struct.Struct(">q")
_NUMBERS = struct.Struct(">qqqqqqq")
_CHECKSUM = struct.Struct(">I")
_KIND = -1
"""In the place of a report's epoch, which is never negative."""

FIRST_BYTE = 0xFF
"""Of an answer."""

SendQuestion = Callable[[int], object]
"""Sends the question with a number."""


class ReadIndex(NamedTuple):
    """What a leader answers, having made sure that no other node leads.

    Attributes:
        number: of the question.
        epoch: of the leader's term.
        confirmed: everything that was acknowledged to anybody is up to here.
        end: everything that anybody may have read is up to here; it may not be confirmed yet.
    """

    number: int
    epoch: int
    confirmed: LSN
    end: LSN

    def encode(self, log_id: str) -> bytes:
        """As it is sent, of the log with this id."""
        numbers = _NUMBERS.pack(_KIND, self.number, self.epoch, *self.confirmed, *self.end)
        return numbers + _CHECKSUM.pack(crc32c(log_id.encode() + numbers))

    @classmethod
    def decode(cls, data: bytes, log_id: str) -> ReadIndex:
        """What :meth:`encode` made. RemoteError DATA_LOSS: it is damaged, or of another log."""
        numbers, checksum = data[: _NUMBERS.size], data[_NUMBERS.size :]
        if checksum != _CHECKSUM.pack(crc32c(log_id.encode() + numbers)):
            raise RemoteError(
                grpc.StatusCode.DATA_LOSS, "XX001", "a read index is damaged, or of another log"
            )
        _, number, epoch, ledger_id, entry_id, end_ledger_id, end_entry_id = _NUMBERS.unpack(numbers)
        return cls(number, epoch, LSN(ledger_id, entry_id), LSN(end_ledger_id, end_entry_id))


def is_read_index(message: bytes) -> bool:
    """Whether a message on the connection of the reports is a read index, and no report."""
    return message[:1] == bytes([FIRST_BYTE])


def encode_question(number: int) -> bytes:
    """The question with this number, as it is sent."""
    return _QUESTION.pack(number)


def question_number(message: bytes) -> int | None:
    """The number of the question that a message is; None: it is none."""
    if len(message) != _QUESTION.size:
        return None
    number: int = _QUESTION.unpack(message)[0]
    return number


class ReadIndexAsker(Protocol):
    """Asks, on the connection of the reports."""

    def connected(self, send: SendQuestion | None) -> None:
        """Questions may be sent until ``disconnected``. None: this leader's version answers none."""

    def answered(self, index: ReadIndex) -> None:
        """An answer has come."""

    def disconnected(self) -> None:
        """Nothing is sent or answered any more."""


class ReadIndexAnswerer(Protocol):
    """Answers, for one follower."""

    def answer(self, number: int, send: Callable[[ReadIndex], object]) -> None:
        """Send the answer, at once or later; none where this node cannot make sure that it leads."""

    def close(self) -> None:
        """Answer nothing more."""
