"""Adds and reads by hand: the requests and replies of which there are tens of thousands a second.

Down: a writer's ``AddEncoder`` seals an entry and frames it; the same bytes go to every replica, since a
transaction id has to be unique on its connection only. Up: ``parse_add_reply`` and ``parse_read_reply`` take
the one shape of reply that matters for speed and leave every other to ``messages.parse_reply``; ``find_adds``
finds many replies at a glance, before what was received is cut into ``frames``. Fencing reads and long polls
are in ``messages``.

Format: Request with AddRequest or ReadRequest, Response with AddResponse or ReadResponse of
proto/protocol.proto, fields in order of number, as every protobuf library writes them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from herdpy.bookkeeper.digest import Digest
from herdpy.bookkeeper.wire.messages import ReadReply, Reply
from herdpy.bookkeeper.wire.protocol import (
    HIGH_PRIORITY,
    LOW,
    MASTER_KEY_BYTES,
    SHORT,
    AddFlag,
    Operation,
    ReplyStatus,
    WriteFlag,
    decode,
    encode,
    encode_any,
    pack_length,
    recall,
)

_PREFIX_BYTES: Final = 4
_TXN_AT: Final = 11

_DIGITS: Final = rb"([\x80-\xff]{0,8}[\x00-\x7f])"
_RUN_HEADER: Final = rb"\x08\x03\x10\x02\x18"
_match_first: Final = re.compile(
    rb"\0\0\0.\n.%b%b\x10\x00\xaa\x06.\x08\x00\x10%b\x18%b" % (_RUN_HEADER, *(_DIGITS,) * 3), re.DOTALL
).match

_Run = tuple[Callable[[bytes], "re.Match[bytes] | None"], Callable[[bytes], list[int]]]


def find_adds(data: bytes) -> tuple[list[int], int]:
    """The transaction ids of the successful adds that ``data`` starts with, and where what follows begins.

    ``data`` starts with the length prefix of a frame. Not all that could be found need be.
    """
    first = _match_first(data)
    if first is None:
        return [], 0
    txn, ledger_id, entry_id = first.groups()
    match, take = _run(len(txn), len(ledger_id), len(entry_id))
    found = match(data)
    if found is None:  # a length in it is not the right one
        return [], 0
    end = found.end()
    return take(data[:end]), end


@lru_cache(maxsize=256)
def _run(txn_digits: int, ledger_digits: int, entry_digits: int) -> _Run:
    """What matches the longest run of frames of this shape, and what takes out their transaction ids."""
    add_bytes = 4 + ledger_digits + entry_digits
    after_txn = 5 + add_bytes
    frame_bytes = _TXN_AT - _PREFIX_BYTES + txn_digits + after_txn
    one = rb"%b\n%b%b%b\x10\x00\xaa\x06%b\x08\x00\x10%b\x18%b" % (
        re.escape(struct.pack(">I", frame_bytes)),
        re.escape(bytes([5 + txn_digits])),
        _RUN_HEADER,
        _digits(txn_digits),
        re.escape(bytes([add_bytes])),
        _digits(ledger_digits),
        _digits(entry_digits),
    )
    match = re.compile(rb"(?:%b)++" % one).match
    if txn_digits == 3:
        three = struct.Struct(f"{_TXN_AT}xBBB{after_txn}x").iter_unpack
        return match, lambda run: [a & 127 | (b & 127) << 7 | c << 14 for a, b, c in three(run)]
    if txn_digits == 4:
        four = struct.Struct(f"{_TXN_AT}xBBBB{after_txn}x").iter_unpack
        return match, lambda run: [
            a & 127 | (b & 127) << 7 | (c & 127) << 14 | d << 21 for a, b, c, d in four(run)
        ]
    any_digits = struct.Struct(f"{_TXN_AT}x{txn_digits}s{after_txn}x").iter_unpack
    return match, lambda run: [decode(txn) for (txn,) in any_digits(run)]


def _digits(count: int) -> bytes:
    return rb"[\x80-\xff]{%d}[\x00-\x7f]" % (count - 1)


_pack_header: Final = struct.Struct(">qqqq").pack
_MAX_SHAPES: Final = 256

_HEADER: Final = b"\x08\x03\x10" + encode(Operation.ADD_ENTRY) + b"\x18"  # version, operation, tag of txn
_PRIORITY: Final = b"\x20" + encode(HIGH_PRIORITY)
_ADD: Final = b"\xaa\x06"  # tag of Request.add and of Response.add
_WRITE_FLAGS: Final = b"\x28"
_FLAG: Final = b"\xa0\x06"


class AddEncoder:
    """Makes the add requests of one ledger.

    What does not change from entry to entry is computed once; what changes only with the number of digits
    of the ids or with the size of the data is remembered. ``recovery`` makes adds that pass the fence, at
    high priority; with ``deferred_sync`` a bookie answers before its journal is synced.
    """

    __slots__ = ("_checksum", "_head_tail", "_key", "_ledger", "_ledger_id", "_overhead", "_shapes", "_tail")

    def __init__(
        self,
        ledger_id: int,
        master_key: bytes,
        digest: Digest,
        *,
        recovery: bool = False,
        deferred_sync: bool = False,
    ) -> None:
        if len(master_key) != MASTER_KEY_BYTES:
            raise ValueError(f"a master key has {MASTER_KEY_BYTES} bytes, not {len(master_key)}")
        self._ledger_id: Final = ledger_id
        self._checksum: Final = digest.checksum
        self._overhead: Final = digest.overhead_bytes
        self._ledger: Final = b"\x08" + encode(ledger_id) + b"\x10"
        self._key: Final = b"\x1a" + encode(MASTER_KEY_BYTES) + master_key + b"\x22"
        # After the transaction id, still in the header; and after the body.
        self._head_tail: Final = _PRIORITY if recovery else b""
        tail = _WRITE_FLAGS + encode(WriteFlag.DEFERRED_SYNC) if deferred_sync else b""
        self._tail: Final = tail + (_FLAG + encode(AddFlag.RECOVERY_ADD) if recovery else b"")
        self._shapes: dict[tuple[int, int, int], tuple[bytes, bytes, bytes]] = {}

    def encode(self, txn: int, entry_id: int, lac: int, length: int, data: bytes) -> bytes:
        """The whole frame that adds ``data`` as entry ``entry_id``, length prefix included.

        ``lac`` is the last add confirmed when it is sent, ``length`` the ledger's bytes of data with this
        entry. Raises struct.error for numbers beyond 64 bits, TypeError for data that is not bytes.
        """
        header = _pack_header(self._ledger_id, entry_id, lac, length)
        digest = self._checksum(header, data)
        if 0 <= txn < 16384:
            txn_bytes = SHORT[txn]
        elif 0 <= txn < 268435456:
            txn_bytes = LOW[txn & 16383] + SHORT[txn >> 14]
        else:
            txn_bytes = encode_any(txn)
        if 0 <= entry_id < 16384:
            entry_bytes = SHORT[entry_id]
        elif 0 <= entry_id < 268435456:
            entry_bytes = LOW[entry_id & 16383] + SHORT[entry_id >> 14]
        else:
            entry_bytes = encode_any(entry_id)
        shape = (len(data), len(txn_bytes), len(entry_bytes))
        try:
            before_txn, before_entry, before_body = self._shapes[shape]
        except KeyError:
            before_txn, before_entry, before_body = self._shape(*shape)
        if self._tail:
            return b"".join(
                (
                    before_txn,
                    txn_bytes,
                    before_entry,
                    entry_bytes,
                    before_body,
                    header,
                    digest,
                    data,
                    self._tail,
                )
            )
        return b"".join((before_txn, txn_bytes, before_entry, entry_bytes, before_body, header, digest, data))

    def encode_body(self, txn: int, entry_id: int, body: bytes) -> bytes:
        """The whole frame that adds an entry sealed before, as a recovery does with what it has read."""
        txn_bytes = encode(txn)
        entry_bytes = encode(entry_id)
        before_txn, before_entry, before_body = self._shape(
            len(body) - self._overhead, len(txn_bytes), len(entry_bytes)
        )
        return b"".join((before_txn, txn_bytes, before_entry, entry_bytes, before_body, body, self._tail))

    def _shape(self, data_bytes: int, txn_digits: int, entry_digits: int) -> tuple[bytes, bytes, bytes]:
        """What stands before the transaction id, the entry id and the body of frames of one shape."""
        body_bytes = data_bytes + self._overhead
        before_body = self._key + encode(body_bytes)
        add_bytes = len(self._ledger) + entry_digits + len(before_body) + body_bytes + len(self._tail)
        before_entry = self._head_tail + _ADD + encode(add_bytes) + self._ledger
        header_bytes = len(_HEADER) + txn_digits + len(self._head_tail)
        after_header = len(before_entry) - len(self._head_tail) - len(self._ledger) + add_bytes
        prefix = pack_length(2 + header_bytes + after_header)
        before_txn = prefix + b"\x0a" + encode(header_bytes) + _HEADER
        if len(self._shapes) >= _MAX_SHAPES:
            self._shapes.clear()
        shape = self._shapes[data_bytes, txn_digits, entry_digits] = (before_txn, before_entry, before_body)
        return shape


_VARINT: Final = rb"[\x80-\xff]{0,8}[\x00-\x7f]"  # of at most 63 bits, so never negative
_no_match: Final = re.compile(rb"(?!)").fullmatch


def _matcher(header_bytes: int) -> Callable[[bytes], re.Match[bytes] | None]:
    """Matches an add's success whose header has that size.

    Header, status EOK, add reply (its length is checked by the caller): status EOK, ledger, entry.
    """
    more = header_bytes - len(_HEADER) - 1  # bytes of the transaction id but the last
    if not 0 <= more <= 8:
        return _no_match
    head = rb"\n%b%b[\x80-\xff]{%d}[\x00-\x7f]" % (re.escape(bytes([header_bytes])), _HEADER, more)
    reply = rb"\x10\x00\xaa\x06.\x08\x00\x10%b\x18%b" % (_VARINT, _VARINT)
    return re.compile(head + reply, re.DOTALL).fullmatch


_MATCHERS: Final = tuple(map(_matcher, range(256)))


def parse_add_reply(frame: bytes) -> tuple[int, int] | None:
    """(txn, status) of a frame that says in the usual form that an add succeeded; None for any other.

    None says nothing about the frame: give it to ``replies.parse_reply``, which also finds what is wrong with
    it. So refusals, unknown fields and fields in another order take the slow way, and both ways agree.
    """
    if len(frame) < 2:
        return None
    header_bytes = frame[1]
    if _MATCHERS[header_bytes](frame) is None or frame[header_bytes + 6] != len(frame) - header_bytes - 7:
        return None
    if header_bytes == 8:
        return frame[7] & 127 | (frame[8] & 127) << 7 | frame[9] << 14, 0
    if header_bytes == 9:
        return frame[7] & 127 | (frame[8] & 127) << 7 | (frame[9] & 127) << 14 | frame[10] << 21, 0
    return decode(frame[7 : header_bytes + 2]), 0


# Reads.

_READ_ENTRY: Final = int(Operation.READ_ENTRY)  # reaching into an enum costs as much as parsing a number
_EOK: Final = int(ReplyStatus.EOK)
_READ_HEADER: Final = (
    b"\x08\x03\x10" + encode(Operation.READ_ENTRY) + b"\x18"
)  # version, operation, tag of txn
_READ: Final = b"\xa2\x06"  # tag of Request.read and of Response.read


@lru_cache(maxsize=1024)
def _request_shape(ledger_id: int, txn_digits: int, entry_digits: int) -> tuple[bytes, bytes]:
    """What stands before the transaction id and before the entry id of requests of one shape."""
    ledger_bytes = encode(ledger_id)
    read_bytes = 2 + len(ledger_bytes) + entry_digits  # at most 22: its length takes one byte
    header_bytes = len(_READ_HEADER) + txn_digits
    before_txn = b"%b\x0a%c%b" % (pack_length(5 + header_bytes + read_bytes), header_bytes, _READ_HEADER)
    return before_txn, b"%b%c\x08%b\x10" % (_READ, read_bytes, ledger_bytes)


def encode_read(txn: int, ledger_id: int, entry_id: int) -> bytes:
    """The whole frame that reads an entry (-1: the last one this bookie has), length prefix included."""
    txn_bytes = encode(txn)
    entry_bytes = encode(entry_id)
    before_txn, before_entry = _request_shape(ledger_id, len(txn_bytes), len(entry_bytes))
    return b"".join((before_txn, txn_bytes, before_entry, entry_bytes))


_READ_VARINT: Final = b"(%b)" % _VARINT
# Header (its length checked below), status EOK, read reply (its length likewise): status EOK, ledger, entry,
# and the length of the body.
_match_start: Final = re.compile(
    rb"\n.\x08\x03\x10\x01\x18%b\x10\x00\xa2\x06%b\x08\x00\x10%b\x18%b\x22%b" % ((_READ_VARINT,) * 5),
    re.DOTALL,
).match
# After the body: last add confirmed and the time it was learnt, either may be absent.
_match_end: Final = re.compile(rb"(?:\x28%b)?(?:\x30%b)?" % (_READ_VARINT, _READ_VARINT)).fullmatch
_MAX_END_BYTES: Final = 20


@lru_cache(maxsize=1024)
def _parse_end(end: bytes) -> tuple[int | None, int | None] | None:
    """The numbers after the body, which are the same in most replies of a ledger."""
    match = _match_end(end)
    if match is None:
        return None
    max_lac, updated_ms = match.groups()
    return (
        None if max_lac is None else decode(max_lac),
        None if updated_ms is None else decode(updated_ms),
    )


def find_body(frame: bytes) -> tuple[int, int, int] | None:
    """(txn, where the body starts, where it ends) of a frame that `parse_read_reply` takes; None for others.

    All that a reader needs: the body itself says, under its digest, which entry it is.
    """
    start = _match_start(frame)
    if start is None:
        return None
    txn, read_bytes, _, _, body_bytes = start.groups()
    body_start = start.end()
    body_end = body_start + recall(body_bytes)
    size = len(frame)
    if (
        body_end > size  # where a match could start only at the end of the frame
        or size - body_end > _MAX_END_BYTES
        or _parse_end(frame[body_end:]) is None
        or frame[1] != 5 + len(txn)
        or recall(read_bytes) != size - 11 - len(txn) - len(read_bytes)
    ):
        return None
    return decode(txn), body_start, body_end


def parse_read_reply(frame: bytes) -> Reply | None:
    """The reply in a frame that says in the usual form that an entry was read; None for any other.

    None says nothing about the frame: give it to ``replies.parse_reply``, which also finds what is wrong with
    it. So refusals, replies without a body, negative numbers, unknown fields and fields in another order take
    the slow way, and both ways agree.
    """
    found = find_body(frame)
    start = _match_start(frame)
    if found is None or start is None:
        return None
    txn, body_start, body_end = found
    _, _, ledger_id, entry_id, _ = start.groups()
    max_lac, updated_ms = _parse_end(frame[body_end:]) or (None, None)
    body = ReadReply(
        _EOK, decode(ledger_id), decode(entry_id), frame[body_start:body_end], max_lac, updated_ms
    )
    return Reply(txn, _READ_ENTRY, _EOK, body)
