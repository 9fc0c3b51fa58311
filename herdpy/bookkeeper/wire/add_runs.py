"""Many successful adds at a glance: what a bookie sends to a busy writer, before it is cut into frames.

Between ``frames``, which hands over what was received, and ``adds``, whose one reply this finds many times
over. Neighbours nearly always have the same shape (as many digits in each number), so that one regular
expression finds where a run of them ends and one struct takes out the transaction ids: a quarter of the time
of cutting and parsing frame by frame. Whatever it does not know is left to them.

Format: as in ``adds``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from herdpy.bookkeeper.wire.varint import decode

_PREFIX_BYTES: Final = 4
_TXN_AT: Final = 11

_DIGITS: Final = rb"([\x80-\xff]{0,8}[\x00-\x7f])"
_HEADER: Final = rb"\x08\x03\x10\x02\x18"
_match_first: Final = re.compile(
    rb"\0\0\0.\n.%b%b\x10\x00\xaa\x06.\x08\x00\x10%b\x18%b" % (_HEADER, *(_DIGITS,) * 3), re.DOTALL
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
        _HEADER,
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
