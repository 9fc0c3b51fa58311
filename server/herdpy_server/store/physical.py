"""Store layer, inside: keys of any length under LMDB's limit of 511 bytes.

A key of at most 480 bytes is itself LMDB's key. A longer one is kept under 497 bytes, its first
480, a zero byte and a 16-byte BLAKE2b of the whole key, and the value follows the whole key:
4 bytes of length (big-endian), the key, the value. Two different keys therefore never meet, and
only those that agree in their first 480 bytes, a *block*, are out of order in LMDB; who scans sorts
within a block. A plain key equal to a block's prefix sorts before the block, as it must.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

MAX_PLAIN = 480
_SUFFIX = 17
_BLOCK_END = b"\xff" * (_SUFFIX + 1)


def is_long(physical: bytes) -> bool:
    """Whether this key of LMDB's is that of a longer one."""
    return len(physical) > MAX_PLAIN


def long_key(key: bytes) -> bytes:
    """LMDB's key for a key of more than 480 bytes."""
    return key[:MAX_PLAIN] + b"\0" + blake2b(key, digest_size=_SUFFIX - 1).digest()


def long_value(key: bytes, value: bytes) -> bytes:
    """What is kept under :func:`long_key`."""
    return len(key).to_bytes(4, "big") + key + value


def to_physical(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The item as LMDB has it."""
    if len(key) <= MAX_PLAIN:
        return key, value
    return long_key(key), long_value(key, value)


def from_physical(physical: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The item of which LMDB's was made; ValueError when it is none."""
    if len(physical) <= MAX_PLAIN:
        return physical, value
    end = 4 + int.from_bytes(value[:4], "big")
    key = value[4:end]
    if len(physical) != MAX_PLAIN + _SUFFIX or long_key(key) != physical:
        raise ValueError(f"an entry for a long key does not hold that key: {physical[:32]!r}")
    return key, value[end:]


def physical_low(low: bytes | None) -> bytes | None:
    """Where LMDB has to begin so that no key >= ``low`` is missed."""
    return low if low is None or len(low) <= MAX_PLAIN else low[:MAX_PLAIN]


def physical_high(high: bytes | None) -> bytes | None:
    """Where LMDB has to end so that no key < ``high`` is missed."""
    return high if high is None or len(high) <= MAX_PLAIN else high[:MAX_PLAIN] + _BLOCK_END


def in_order(
    items: Iterable[tuple[bytes, bytes]], low: bytes | None, high: bytes | None, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Logical items in order, from LMDB's in its order (or the reverse)."""
    block: list[tuple[bytes, bytes]] = []
    prefix = b""
    for item in items:
        key = item[0]
        if block and (len(key) <= MAX_PLAIN or key[:MAX_PLAIN] != prefix):
            yield from _sorted_block(block, low, high, reverse)
            block = []
        if len(key) > MAX_PLAIN:
            prefix = key[:MAX_PLAIN]
            block.append(from_physical(*item))
        elif (low is None or key >= low) and (high is None or key < high):
            yield item
    yield from _sorted_block(block, low, high, reverse)


def _sorted_block(
    block: list[tuple[bytes, bytes]], low: bytes | None, high: bytes | None, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    block.sort(reverse=reverse)
    for item in block:
        if (low is None or item[0] >= low) and (high is None or item[0] < high):
            yield item


def is_plain(keys: Iterable[bytes]) -> bool:
    """Whether LMDB takes all of these keys as they are."""
    return max(map(len, keys)) <= MAX_PLAIN
