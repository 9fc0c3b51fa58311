"""Reads by hand: the request and the reply of a plain read, which a reader sends and gets for every entry.

Beside ``adds``; fencing reads and long polls are in ``requests``, and every reply that has not the usual form
is left to ``replies.parse_reply``.

Format: Request with ReadRequest, Response with ReadResponse of proto/protocol.proto, fields in order of
number.
"""

from __future__ import annotations

import re
from typing import Final

from herdpy.bookkeeper.wire.replies import ReadReply, Reply
from herdpy.bookkeeper.wire.status import Operation, Status
from herdpy.bookkeeper.wire.varint import decode, encode, pack_length, recall

_READ_ENTRY: Final = int(Operation.READ_ENTRY)  # reaching into an enum costs as much as parsing a number
_EOK: Final = int(Status.EOK)
_HEADER: Final = b"\x08\x03\x10" + encode(Operation.READ_ENTRY) + b"\x18"  # version, operation, tag of txn
_READ: Final = b"\xa2\x06"  # tag of Request.read and of Response.read


def encode_read(txn: int, ledger_id: int, entry_id: int) -> bytes:
    """The whole frame that reads an entry (-1: the last one this bookie has), length prefix included."""
    txn_bytes = encode(txn)
    ledger_bytes = encode(ledger_id)
    entry_bytes = encode(entry_id)
    read_bytes = 2 + len(ledger_bytes) + len(entry_bytes)  # at most 22: its length takes one byte
    header_bytes = len(_HEADER) + len(txn_bytes)
    return b"%b\x0a%c%b%b%b%c\x08%b\x10%b" % (
        pack_length(5 + header_bytes + read_bytes),
        header_bytes,
        _HEADER,
        txn_bytes,
        _READ,
        read_bytes,
        ledger_bytes,
        entry_bytes,
    )


_VARINT: Final = rb"([\x80-\xff]{0,8}[\x00-\x7f])"  # of at most 63 bits, so never negative
# Header (its length checked below), status EOK, read reply (its length likewise): status EOK, ledger, entry,
# and the length of the body.
_match_start: Final = re.compile(
    rb"\n.\x08\x03\x10\x01\x18%b\x10\x00\xa2\x06%b\x08\x00\x10%b\x18%b\x22%b" % ((_VARINT,) * 5), re.DOTALL
).match
# After the body: last add confirmed and the time it was learnt, either may be absent.
_match_end: Final = re.compile(rb"(?:\x28%b)?(?:\x30%b)?" % (_VARINT, _VARINT)).fullmatch


def parse_read_reply(frame: bytes) -> Reply | None:
    """The reply in a frame that says in the usual form that an entry was read; None for any other.

    None says nothing about the frame: give it to ``replies.parse_reply``, which also finds what is wrong with
    it. So refusals, replies without a body, negative numbers, unknown fields and fields in another order take
    the slow way, and both ways agree.
    """
    start = _match_start(frame)
    if start is None:
        return None
    txn, read_bytes, ledger_id, entry_id, body_bytes = start.groups()
    body_start = start.end()
    body_end = body_start + recall(body_bytes)
    size = len(frame)
    if body_end > size:  # where a match could start only at the end of the frame
        return None
    end = _match_end(frame, body_end)
    read_start = 11 + len(txn) + len(read_bytes)
    if end is None or frame[1] != 5 + len(txn) or recall(read_bytes) != size - read_start:
        return None
    max_lac, updated_ms = end.groups()
    return Reply(
        decode(txn),
        _READ_ENTRY,
        _EOK,
        ReadReply(
            _EOK,
            recall(ledger_id),
            decode(entry_id),
            frame[body_start:body_end],
            None if max_lac is None else recall(max_lac),
            None if updated_ms is None else decode(updated_ms),
        ),
    )
