"""Store layer, inside: what LMDB has of records that the log numbers one after the other.

``outcomes`` and ``loads`` are such records: each has the next serial number, which is its key, and the
oldest ones are forgotten. Figures in ``meta`` say which numbers there are and have a checksum, so that a
check finds a record that is missing, out of order, or changed on disk. Below ``outcomes`` and ``loads``.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from xxhash import xxh3_64_intdigest

from herdpy.log import LSN

KEY = struct.Struct(">Q")
_MASK = (1 << 64) - 1


class NumberedFigures(msgspec.Struct, frozen=True):
    """What ``meta`` says of the records: their serial numbers are ``first`` up to, without it, ``end``.

    Attributes:
        checksum: the sum modulo 2**64 of XXH3-64 over key and value, in hexadecimal.
    """

    first: int = 0
    end: int = 0
    checksum: str = "0"


Figures = TypeVar("Figures", bound=NumberedFigures)
Record = TypeVar("Record")


def forget_below(fresh: deque[tuple[int, Record]], serial: int) -> None:
    """Take the records with smaller serial numbers out of those that LMDB has not, oldest first."""
    while fresh and fresh[0][0] < serial:
        fresh.popleft()


def write(
    txn: Any, handle: Any, before: Figures, figures: Figures, fresh: Iterable[tuple[bytes, bytes]]
) -> Figures:
    """Bring LMDB from the figures ``before`` to ``figures``; returns them with their checksum.

    Args:
        fresh: keys and values that LMDB has not, in order.
    """
    checksum = int(before.checksum, 16)
    cursor = txn.cursor(handle)
    while cursor.first() and KEY.unpack(cursor.key())[0] < figures.first:
        checksum -= xxh3_64_intdigest(cursor.key() + cursor.value())
        cursor.delete()
    for key, value in fresh:
        checksum += xxh3_64_intdigest(key + value)
        cursor.put(key, value, append=True)
    return msgspec.structs.replace(figures, checksum=f"{checksum & _MASK:x}")


def faults(
    txn: Any,
    handle: Any,
    figures: NumberedFigures,
    decode: Callable[[bytes, bytes], tuple[int, Record]],
    last: LSN,
    judge: Callable[[Record], tuple[LSN, str | None]],
) -> Iterator[str]:
    """What does not fit together in LMDB.

    Args:
        decode: serial number and record; ValueError for what is none.
        last: no record is before this position.
        judge: a record's position, and what else is wrong with it.
    """
    expected, checksum = figures.first, 0
    for key, value in txn.cursor(handle):
        checksum += xxh3_64_intdigest(key + value)
        try:
            serial, one = decode(key, value)
        except ValueError as error:
            yield str(error)
            continue
        if serial != expected:
            yield f"number {serial} stands where {expected} should"
        lsn, wrong = judge(one)
        if lsn < last:
            yield f"number {serial} is at {lsn}, the one before it at {last}"
        if wrong is not None:
            yield f"number {serial} {wrong}"
        expected, last = serial + 1, max(last, lsn)
    if expected != figures.end:
        yield f"they end before {expected}, {figures.end} was written"
    if checksum & _MASK != int(figures.checksum, 16):
        yield f"checksum {checksum & _MASK:016x} where {int(figures.checksum, 16):016x} was written"
