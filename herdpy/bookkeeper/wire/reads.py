"""Reads by hand: the request and the reply of a plain read, which a reader sends and gets for every entry.

Beside ``adds``; fencing reads and long polls are in ``requests``, and every reply that has not the usual form
is left to ``replies.parse_reply``.

Format: Request with ReadRequest, Response with ReadResponse of proto/protocol.proto, fields in order of
number.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from herdpy.bookkeeper.wire.replies import ReadReply, Reply
from herdpy.bookkeeper.wire.status import Operation, ReplyStatus
from herdpy.bookkeeper.wire.varint import decode, encode, pack_length, recall

_READ_ENTRY: Final = int(Operation.READ_ENTRY)  # reaching into an enum costs as much as parsing a number
_EOK: Final = int(ReplyStatus.EOK)
_HEADER: Final = b"\x08\x03\x10" + encode(Operation.READ_ENTRY) + b"\x18"  # version, operation, tag of txn
_READ: Final = b"\xa2\x06"  # tag of Request.read and of Response.read


@lru_cache(maxsize=1024)
def _request_shape(ledger_id: int, txn_digits: int, entry_digits: int) -> tuple[bytes, bytes]:
    """What stands before the transaction id and before the entry id of requests of one shape."""
    ledger_bytes = encode(ledger_id)
    read_bytes = 2 + len(ledger_bytes) + entry_digits  # at most 22: its length takes one byte
    header_bytes = len(_HEADER) + txn_digits
    before_txn = b"%b\x0a%c%b" % (pack_length(5 + header_bytes + read_bytes), header_bytes, _HEADER)
    return before_txn, b"%b%c\x08%b\x10" % (_READ, read_bytes, ledger_bytes)


def encode_read(txn: int, ledger_id: int, entry_id: int) -> bytes:
    """The whole frame that reads an entry (-1: the last one this bookie has), length prefix included."""
    txn_bytes = encode(txn)
    entry_bytes = encode(entry_id)
    before_txn, before_entry = _request_shape(ledger_id, len(txn_bytes), len(entry_bytes))
    return b"".join((before_txn, txn_bytes, before_entry, entry_bytes))


_VARINT: Final = rb"([\x80-\xff]{0,8}[\x00-\x7f])"  # of at most 63 bits, so never negative
# Header (its length checked below), status EOK, read reply (its length likewise): status EOK, ledger, entry,
# and the length of the body.
_match_start: Final = re.compile(
    rb"\n.\x08\x03\x10\x01\x18%b\x10\x00\xa2\x06%b\x08\x00\x10%b\x18%b\x22%b" % ((_VARINT,) * 5), re.DOTALL
).match
# After the body: last add confirmed and the time it was learnt, either may be absent.
_match_end: Final = re.compile(rb"(?:\x28%b)?(?:\x30%b)?" % (_VARINT, _VARINT)).fullmatch
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
