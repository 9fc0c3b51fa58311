"""From a group of transactions to entries: who shares one, and who is cut in parts.

Pure: it knows the format and the limit, no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from herdpy.log.body import Body
from herdpy.log.entry import FIRST, HEADER_BYTES, LAST, PART_BYTES, encode_part


def fits(size: int, max_entry_bytes: int) -> bool:
    """Whether a transaction of ``size`` bytes fits one entry."""
    return size + PART_BYTES + HEADER_BYTES <= max_entry_bytes


def pack(bodies: Sequence[Body], max_entry_bytes: int) -> Iterator[tuple[list[bytes], list[int]]]:
    """The parts of each entry, and the transactions (by place) that take effect in it.

    A transaction shares an entry with others when it fits one. A larger one is cut: its parts but
    the last have an entry each to themselves, so that no other transaction takes effect between
    its first part and its last, nor in the entry where it begins. A part is made when it is asked for.
    """
    room = max(max_entry_bytes - HEADER_BYTES, PART_BYTES + 1)
    current: list[bytes] = []
    ending: list[int] = []
    used = 0
    for place, body in enumerate(bodies):
        size = PART_BYTES + len(body)
        if used + size > room and current:
            yield current, ending
            current, ending, used = [], [], 0
        if size > room:
            step, at, first = room - PART_BYTES, 0, FIRST
            while len(body) - at > step:
                yield [encode_part(body[at : at + step], first)], []
                at, first = at + step, 0
            size = PART_BYTES + len(body) - at
            current.append(encode_part(body[at:], LAST))
        else:
            current.append(encode_part(body[:]))
        used += size
        ending.append(place)
    if current:
        yield current, ending
