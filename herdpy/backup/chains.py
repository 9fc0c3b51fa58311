"""Segments of a log against one another: which stretches of the log they have, and whether they agree. Pure.

Above ``archive``; below ``checking``. A segment is reduced to a ``SegmentSummary`` as soon as it is read: the
running CRC of each entry says all about the entries up to there. A ``ChainWalk`` is fed with the summaries
in order.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import dataclass, field

from herdpy.backup.archive import LogSegment, decode_segment
from herdpy.backup.errors import DamagedPartError
from herdpy.backup.staged_parts import may_name
from herdpy.log.entry import LogEntry
from herdpy.log.lsn import LSN


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """What a segment has.

    Attributes:
        predecessor, predecessor_crc: of its first entry.
        crcs: the running CRC of each entry.
        loads: entries with transactions, or parts of some, that may name staged ledgers.
    """

    segment: LogSegment
    predecessor: LSN
    predecessor_crc: int
    crcs: array[int]
    loads: list[LogEntry]


def summary_of(name: str, segment: LogSegment, contents: bytes) -> SegmentSummary:
    """Of the contents of a part. DamagedPartError: they are not what the name says, or no chain."""
    crcs = array("I")
    loads: list[LogEntry] = []
    first: LogEntry | None = None
    last: LogEntry | None = None
    for entry in decode_segment(name, contents):
        if entry.lsn != LSN(segment.ledger_id, segment.first + len(crcs)):
            raise DamagedPartError(name, f"entry {entry.lsn} is in it, in another's place")
        if last is not None and (entry.header.predecessor, entry.header.predecessor_crc) != (
            last.lsn,
            last.header.crc,
        ):
            raise DamagedPartError(name, f"entry {entry.lsn} does not follow the one before it")
        first, last = first or entry, entry
        crcs.append(entry.header.crc)
        if may_name(entry):
            loads.append(entry)
    if first is None or last is None or last.lsn != segment.end:
        raise DamagedPartError(name, f"entries are missing at its end, up to {segment.end}")
    return SegmentSummary(segment, first.header.predecessor, first.header.predecessor_crc, crcs, loads)


@dataclass(slots=True)
class Stretch:
    """Entries after ``after`` up to ``end``, without a gap."""

    after: LSN
    end: LSN


@dataclass(slots=True)
class ChainWalk:
    """Puts the segments of one log together.

    Attributes:
        noted: positions whose running CRCs are to be known.
        crcs: of them, as far as segments say it.
        stretches: in order; between two there is a gap.
    """

    noted: Collection[LSN] = ()
    crcs: dict[LSN, int] = field(default_factory=dict)
    stretches: list[Stretch] = field(default_factory=list)
    _first: int = 0
    _ledger: array[int] = field(default_factory=lambda: array("I"))
    _crc: int = 0
    _begins_with: LogSegment | None = None

    def feed(self, one: SegmentSummary) -> str | None:
        """The next by ledger and first entry; returns what is wrong with it, and leaves it out then."""
        segment = one.segment
        if not self.stretches or segment.ledger_id != self.stretches[-1].end.ledger_id:
            return self._next_ledger(one)
        end = self.stretches[-1].end
        if segment.first > end.entry_id + 1:
            self._begin(one)
            return None
        common = range(max(segment.first, self._first), min(segment.last, end.entry_id) + 1)
        theirs = one.crcs[common.start - segment.first : common.stop - segment.first]
        if common and theirs != self._ledger[common.start - self._first : common.stop - self._first]:
            return f"its entries are not those that other segments have up to {end}"
        if not common and (one.predecessor, one.predecessor_crc) != (end, self._crc):
            return f"it continues another history than {end}'s"
        self._extend(one, max(end.entry_id + 1 - segment.first, 0))
        return None

    def _next_ledger(self, one: SegmentSummary) -> str | None:
        if not self.stretches:
            self._begin(one)
            return None
        end = self.stretches[-1].end
        if one.predecessor < end:
            return f"it follows {one.predecessor}, and there are entries up to {end}"
        if one.predecessor > end:
            self._begin(one)
            return None
        if one.predecessor_crc != self._crc:
            return f"it continues another history than {end}'s"
        self._first, self._ledger = one.segment.first, array("I")
        self._extend(one, 0)
        return None

    def _begin(self, one: SegmentSummary) -> None:
        self.stretches.append(Stretch(one.predecessor, one.predecessor))
        self._begins_with = one.segment
        if one.predecessor in self.noted:
            self.crcs[one.predecessor] = one.predecessor_crc
        self._first, self._ledger = one.segment.first, array("I")
        self._extend(one, 0)

    def _extend(self, one: SegmentSummary, start: int) -> None:
        """Take its entries from the ``start``th on."""
        new = one.crcs[start:]
        if not new:
            return
        self._ledger += new
        self._crc = new[-1]
        segment = one.segment
        self.stretches[-1].end = segment.end
        for lsn in self.noted:
            if lsn.ledger_id == segment.ledger_id and segment.first + start <= lsn.entry_id <= segment.last:
                self.crcs[lsn] = one.crcs[lsn.entry_id - segment.first]

    def has_gap_before(self, segment: LogSegment) -> bool:
        """Whether the last stretch begins with this segment, which was fed last."""
        return self._begins_with == segment

    def covers(self, after: LSN, upto: LSN) -> LSN:
        """Up to where entries after ``after`` are there without a gap, ``upto`` at most."""
        for one in self.stretches:
            if one.after <= after <= one.end:
                return min(max(one.end, after), upto)
        return after
