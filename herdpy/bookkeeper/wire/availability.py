"""Which entries of a ledger a bookie has, in the compact form in which it tells.

Used by ``replies`` for the reply to GET_LIST_OF_ENTRIES, and by model bookies to make one.

Format: BookKeeper's util/AvailabilityOfEntriesOfLedger.java, big-endian. 64 bytes of head: version (i32, 0),
number of groups (i32), zeros. Then each group in 24 bytes: first entry of its first run and of its last
run (i64 each), entries in a run, distance between the starts of two runs (i32 each; 0 for a single run).
A bookie of a striped ledger has runs at equal distances, so a few groups tell all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from herdpy.bookkeeper.errors import ProtocolError

HEAD_BYTES: Final = 64
MAX_ENTRIES: Final = 10_000_000
"""A longer list is refused: somebody will make a list of it."""

_VERSION: Final = 0
_HEAD: Final = struct.Struct(">ii56x")
_GROUP: Final = struct.Struct(">qqii")
_MAX_INT: Final = 2**31 - 1


class RunGroup(NamedTuple):
    """Runs of ``size`` entries that start at ``first``, ``first + period``, … ``last``."""

    first: int
    last: int
    size: int
    period: int

    @property
    def starts(self) -> range:
        """Where the runs begin."""
        return range(self.first, self.last + 1, self.period or 1)


@dataclass(frozen=True, slots=True)
class EntryRanges:
    """Entry ids, ascending and without repeats: iterable, with a length, without a list in memory."""

    groups: tuple[RunGroup, ...] = ()

    def __iter__(self) -> Iterator[int]:
        for group in self.groups:
            for start in group.starts:
                yield from range(start, start + group.size)

    def __len__(self) -> int:
        return sum(len(group.starts) * group.size for group in self.groups)

    @classmethod
    def of(cls, entry_ids: Iterable[int]) -> EntryRanges:
        """The groups for these ids. Raises ValueError unless they ascend strictly from 0 or more."""
        return cls(tuple(_groups(_runs(entry_ids))))

    def encode(self) -> bytes:
        """The bytes a bookie sends."""
        return _HEAD.pack(_VERSION, len(self.groups)) + b"".join(_GROUP.pack(*group) for group in self.groups)

    @classmethod
    def decode(cls, data: bytes, max_entries: int = MAX_ENTRIES) -> EntryRanges:
        """The entries in ``data``.

        Raises ProtocolError when the version is unknown, the groups do not fill the data, contradict
        themselves or do not ascend, or there are more than ``max_entries`` entries.
        """
        if len(data) < HEAD_BYTES:
            raise ProtocolError(f"a list of entries of {len(data)} bytes has no head")
        version, count = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise ProtocolError(f"a list of entries of unknown version {version}")
        if count * _GROUP.size != len(data) - HEAD_BYTES:
            raise ProtocolError(f"a list of {count} groups of entries in {len(data)} bytes")
        groups = tuple(RunGroup(*group) for group in _GROUP.iter_unpack(data[HEAD_BYTES:]))
        total = 0
        after = 0
        for group in groups:
            _check(group, after)
            after = group.last + group.size
            total += len(group.starts) * group.size
            if total > max_entries:
                raise ProtocolError(f"a list of more than {max_entries} entries")
        return cls(groups)


NO_ENTRIES: Final = EntryRanges()


def _check(group: RunGroup, lowest: int) -> None:
    first, last, size, period = group
    one = first == last
    several = last > first and period >= size and (last - first) % period == 0
    # With one run the period says nothing; with several, runs may not overlap.
    if first < lowest or size < 1 or last > 2**63 - 1 - size or period < 0 or not (one or several):
        raise ProtocolError(f"a list of entries with an impossible group {tuple(group)}")


def _runs(entry_ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(first, size) of each run of consecutive ids."""
    first = size = 0
    for entry_id in entry_ids:
        if entry_id < first + size:
            raise ValueError(f"entry {entry_id} after entry {first + size - 1}")
        if size and (entry_id > first + size or size == _MAX_INT):
            yield first, size
            size = 0
        if not size:
            first = entry_id
        size += 1
    if size:
        yield first, size


def _groups(runs: Iterable[tuple[int, int]]) -> Iterator[RunGroup]:
    group: RunGroup | None = None
    for start, size in runs:
        if group is not None:
            distance = start - group.last
            if size == group.size and distance == (group.period or distance) and distance <= _MAX_INT:
                group = group._replace(last=start, period=distance)
                continue
            yield group
        group = RunGroup(start, start, size, 0)
    if group is not None:
        yield group
