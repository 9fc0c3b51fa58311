"""What a server and its worker say to each other, and how it travels. The bottom of ``workers``; both sides
use it.

server                              worker
                                    WorkerStarted       it may be asked
BeginQuestion n                     WorkerReady n       a new state of LMDB is open, and this is it
DeltaRows* FlushedDelta*
AskQuestion n                       ResultSchema n, ResultBatch* (with bodies), ResultEnd n | QuestionFailed n
CancelQuestion n                    (ends n soon, with ResultEnd or QuestionFailed)
                                    WorkerLogRecord     at any time

A frame is two lengths (little-endian, four bytes each), a head, which is a message in MessagePack, and a body
of bytes: a record batch, or what a client gets. Both sides are the same version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

_LENGTHS = struct.Struct("<II")
_encode = msgspec.msgpack.Encoder().encode

Buffer = bytes | bytearray | memoryview
Frame = tuple[bytes, bytes]
"""Head and body."""
Values = list[bytes | None]


def frame(message: msgspec.Struct, body: Any = b"") -> list[Any]:
    """The pieces of a frame, to be sent one after the other; ``body`` is anything with a buffer."""
    head = _encode(message)
    size = memoryview(body).nbytes
    first = _LENGTHS.pack(len(head), size) + head
    return [first, body] if size else [first]


class Splitter:
    """Finds frames in data that comes in pieces cut anywhere."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = _LENGTHS.size

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take the next piece; the frames that are complete."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return
        whole = data if len(self._pieces) == 1 else b"".join(self._pieces)
        at = 0
        left = len(whole)
        while left - at >= _LENGTHS.size:
            head, body = _LENGTHS.unpack_from(whole, at)
            self._wanted = _LENGTHS.size + head + body
            if left - at < self._wanted:
                break
            start = at + _LENGTHS.size
            yield whole[start : start + head], whole[start + head : start + head + body]
            at += self._wanted
            self._wanted = _LENGTHS.size
        rest = whole[at:]
        self._pieces, self._size = ([rest] if rest else []), len(rest)


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


# To the worker.


class BeginQuestion(_Message, frozen=True, tag="begin"):
    """Open the newest state of LMDB for question ``number``; forget what was begun before."""

    number: int


class DeltaRows(_Message, frozen=True, tag="part"):
    """Some rows of the delta ``serial``; ``is_whole`` when all of it will come, and may be kept."""

    serial: int
    cleared: bool
    is_whole: bool
    keys: list[bytes]
    values: Values


class FlushedDelta(_Message, frozen=True, tag="gone"):
    """A delta of a table went into LMDB: by these ``keys``, or (None) as the worker has it.

    ``cleared``: what is known of the table's columns is of no use any more.
    """

    table: int
    serial: int
    cleared: bool
    keys: list[bytes] | None


class Chains(_Message, frozen=True):
    """The deltas over a table, newest first, by their serial numbers."""

    table: int
    unapplied: list[int]
    applied: list[int]


class AskQuestion(_Message, frozen=True, tag="ask"):
    """Question ``number``, with what was begun for it and the parts that came before.

    Attributes:
        query_id, query: a number for the query, and its pickle.
        inputs: a pickle of (values, (transaction_us, statement_us, style) of the clock, form or None,
            memory_bytes).
        sequence, flushes: as of the snapshot.
    """

    number: int
    query_id: int
    query: bytes
    inputs: bytes
    chains: list[Chains]
    sequence: int
    flushes: int


class CancelQuestion(_Message, frozen=True, tag="cancel"):
    """End question ``number``, whatever it is at."""

    number: int


# To the server.


class WorkerStarted(_Message, frozen=True, tag="hello"):
    """The worker may be asked."""

    pid: int


class WorkerReady(_Message, frozen=True, tag="ready"):
    """What question ``number`` may be asked of.

    Attributes:
        ledger, entry: the position in LMDB.
        kept: tables of which it keeps columns, and the number of the flush up to which it knows them.
        held: serial numbers of deltas that it has whole.
    """

    number: int
    ledger: int
    entry: int
    kept: dict[int, int]
    held: list[int]


class ResultSchema(_Message, frozen=True, tag="head"):
    """The answer begins; the body is its schema."""

    number: int


class ResultBatch(_Message, frozen=True, tag="batch"):
    """So many rows; the body is a record batch, or what the form made."""

    number: int
    rows: int


class ResultEnd(_Message, frozen=True, tag="end"):
    """The answer is complete. ``kept``: tables of which columns are kept."""

    number: int
    kept: list[int]


class QuestionFailed(_Message, frozen=True, tag="failed"):
    """The question has this SqlError for an answer. ``last``: the worker ends, to begin anew."""

    number: int
    sqlstate: str
    message: str
    detail: str | None
    hint: str | None
    fields: dict[str, str]
    last: bool


class WorkerLogRecord(_Message, frozen=True, tag="log"):
    """A record of the worker's log."""

    level: int
    logger: str
    text: str


ToWorker = BeginQuestion | DeltaRows | FlushedDelta | AskQuestion | CancelQuestion
ToServer = (
    WorkerStarted | WorkerReady | ResultSchema | ResultBatch | ResultEnd | QuestionFailed | WorkerLogRecord
)

_to_worker: Any = msgspec.msgpack.Decoder(ToWorker)
_to_server: Any = msgspec.msgpack.Decoder(ToServer)


def read_by_worker(head: bytes) -> ToWorker:
    """A message of a frame's head."""
    found: ToWorker = _to_worker.decode(head)
    return found


def read_by_server(head: bytes) -> ToServer:
    """A message of a frame's head; msgspec.DecodeError when the worker went mad."""
    found: ToServer = _to_server.decode(head)
    return found
