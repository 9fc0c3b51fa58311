"""From a group of transactions to entries: who shares one, and who is cut in parts.

Pure: it knows the format and the limit, no file.
"""

from __future__ import annotations

from collections.abc import Sequence

from herdpy.log.entry import FIRST, HEADER_BYTES, LAST, PART_BYTES, encode_part


def fits(size: int, max_entry_bytes: int) -> bool:
    """Whether a transaction of ``size`` bytes fits one entry."""
    return size + PART_BYTES + HEADER_BYTES <= max_entry_bytes


def pack(bodies: Sequence[bytes], max_entry_bytes: int) -> tuple[list[list[bytes]], list[int]]:
    """The parts of each entry, and for each transaction the entry (by place) it takes effect in.

    A transaction shares an entry with others when it fits one. A larger one is cut: its parts but
    the last have an entry each to themselves, so that no other transaction takes effect between
    its first part and its last, nor in the entry where it begins.
    """
    room = max(max_entry_bytes - HEADER_BYTES, PART_BYTES + 1)
    entries: list[list[bytes]] = []
    places: list[int] = []
    current: list[bytes] = []
    used = 0
    for body in bodies:
        size = PART_BYTES + len(body)
        if used + size > room and current:
            entries.append(current)
            current, used = [], 0
        if size > room:
            step, at, first = room - PART_BYTES, 0, FIRST
            while len(body) - at > step:
                entries.append([encode_part(body[at : at + step], first)])
                at, first = at + step, 0
            size = PART_BYTES + len(body) - at
            current.append(encode_part(body[at:], LAST))
        else:
            current.append(encode_part(body))
        used += size
        places.append(len(entries))
    if current:
        entries.append(current)
    return entries, places
