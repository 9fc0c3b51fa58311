"""What a reader knows of one ledger: its metadata, how far it is confirmed, which replica to ask first.

Between the ledger store (which tells of changes through a watch) and all readers of the ledger, which wait
here for news. The last add confirmed held here has three sources:

- *proven*: it came out of a body whose digest was checked, or is lower than such a one;
- the metadata: the end of a closed ledger, and what lies before an open one's last segment;
- *reported*: the ledger's writer says so, in a way that the caller vouches for (``report``). What a writer
  has found confirmed stays confirmed, so an old report is as true as a new one. A report also says how soon
  the next one comes; until then a follower asks no bookie for news.

The number that bookies put beside their replies (maxLAC) is not kept: no digest covers it, so a bookie with
a flipped bit could have a reader deliver entries that were never confirmed. BookKeeper's Java client does
believe it (client/PendingReadOp.java, client/ReadLastConfirmedAndEntryOp.java); here it is only a reason to
go and ask for a proof.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from herdpy.bookkeeper.errors import NoSuchLedgerError
from herdpy.bookkeeper.metadata.ledger_metadata import NO_ENTRY, LedgerMetadata, LedgerState, Segment
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from herdpy.bookkeeper.metadata.znodes import Watch

log = logging.getLogger("herdpy.bookkeeper.reader")


def span_at(metadata: LedgerMetadata, entry_id: int) -> tuple[tuple[str, ...], int | None]:
    """The members of an entry's segment, and the first entry of the next one (None: it is the last)."""
    segments = metadata.segments
    if entry_id >= segments[-1].first_entry_id:
        return segments[-1].members, None
    segment = metadata.ensemble_at(entry_id)
    return segment.members, segments[segments.index(segment) + 1].first_entry_id


class LedgerView:
    """The newest known metadata of a ledger and its last add confirmed.

    Attributes:
        ledger_id: which ledger.
        versioned: its metadata and their version.
        last_add_confirmed: every entry up to here is confirmed; -1: none that is known of.
        proven: the same without what is only reported.
        last_stored: the newest entry that a bookie said it has, confirmed or not; -1: none that is known of.
        length_bytes: data bytes up to the end of a closed ledger, or up to the last entry read of an open
            one.
        is_deleted: the metadata is gone.
        is_hurried: somebody waits for news: a follower that rests is to look at once.
    """

    def __init__(self, ledger_id: int, versioned: Versioned, store: LedgerStore) -> None:
        self.ledger_id = ledger_id
        self.versioned = versioned
        self.last_add_confirmed = self.last_stored = self.proven = NO_ENTRY
        self.length_bytes = 0
        self.is_deleted = self.is_hurried = False
        self._loop = asyncio.get_running_loop()
        self._report_due_s = 0.0
        self._silence: asyncio.TimerHandle | None = None
        self._store = store
        self._watch: Watch | None = None
        self._changed = asyncio.Event()
        self._take_metadata()

    @property
    def metadata(self) -> LedgerMetadata:
        """The newest known metadata."""
        return self.versioned.metadata

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is fixed."""
        return self.versioned.metadata.state is LedgerState.CLOSED

    def members_at(self, entry_id: int) -> Segment:
        """The segment that holds an entry."""
        return self.versioned.metadata.ensemble_at(entry_id)

    def span_at(self, entry_id: int) -> tuple[tuple[str, ...], int | None]:
        """The members of an entry's segment, and the first entry of the next one (None: it is the last)."""
        return span_at(self.versioned.metadata, entry_id)

    def follow(self) -> None:
        """Watch the metadata until the ledger is closed or the view is."""
        if self._watch is None and not self.is_closed:
            self._watch = self._store.watch(self.ledger_id, self._on_metadata)

    def close(self) -> None:
        """Watch no longer."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def release(self) -> None:
        """As ``close``, and wake whoever waits for a change."""
        self.close()
        self._notify()

    def wake(self) -> None:
        """Wake whoever waits for a change, to look at what else has changed."""
        self._notify()

    def hurry(self) -> None:
        """Have a follower look for news now, though it has looked a moment ago."""
        self.is_hurried = True
        self._notify()

    def next_change(self) -> asyncio.Event:
        """An event that is set at the next change of metadata or of the last add confirmed."""
        return self._changed

    def prove(self, last_add_confirmed: int) -> None:
        """Take over a last add confirmed out of a checked body.

        The end of a closed ledger stays what the metadata say.
        """
        if last_add_confirmed <= self.proven or self.is_closed:
            return
        self.proven = last_add_confirmed
        if last_add_confirmed > self.last_add_confirmed:
            self.last_add_confirmed = last_add_confirmed
            self._notify()

    @property
    def is_reported(self) -> bool:
        """Whether the ledger's writer reports, and its next report is not overdue."""
        return self._silence is not None and self._loop.time() < self._report_due_s

    def report(self, last_add_confirmed: int, silent_s: float) -> None:
        """Take over a last add confirmed that the ledger's writer reports.

        While another client recovers the ledger, and once it is closed, the metadata alone say where it ends.

        Args:
            silent_s: the next report comes within that time; when it does not, whoever waits is woken. 0: no
                report will come, so that is at once.
        """
        metadata = self.versioned.metadata
        if metadata.state is not LedgerState.OPEN or self.is_deleted:
            return
        self._report_due_s = self._loop.time() + silent_s
        if silent_s <= 0:
            self._end_reports()
        elif self._silence is None:
            self._silence = self._loop.call_at(self._report_due_s, self._on_silence)
        if last_add_confirmed > self.last_add_confirmed:
            self.last_add_confirmed = last_add_confirmed
            self._notify()

    def _on_silence(self) -> None:
        """One timer, which is mostly let run and then set anew, because reports come far more often."""
        if self._loop.time() < self._report_due_s:
            self._silence = self._loop.call_at(self._report_due_s, self._on_silence)
        else:
            self._end_reports()

    def _end_reports(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
            self._notify()

    async def refresh(self) -> None:
        """Read the metadata again.

        Raises:
            NoSuchLedgerError: the ledger was deleted.
        """
        try:
            self._on_metadata(await self._store.read(self.ledger_id))
        except NoSuchLedgerError:
            self._on_metadata(None)
            raise

    async def was_remade(self, bookie_id: str) -> bool:
        """Whether a bookie began with empty disks after the ledger was made. Errors as ``refresh``."""
        return bookie_id in await self._store.remade(self.ledger_id, [bookie_id])

    def _on_metadata(self, versioned: Versioned | None) -> None:
        if versioned is None:
            if not self.is_deleted:
                self.is_deleted = True
                self._notify()
            return
        if versioned.version <= self.versioned.version:
            return
        self.versioned = versioned
        self._take_metadata()
        self._notify()
        if self.is_closed:
            self.close()

    def _take_metadata(self) -> None:
        metadata = self.versioned.metadata
        if metadata.state is LedgerState.CLOSED:
            if self.last_add_confirmed > metadata.last_entry_id:
                log.error(
                    "ledger closed below a confirmed entry",
                    extra={
                        "ledger_id": self.ledger_id,
                        "last_entry_id": metadata.last_entry_id,
                        "last_add_confirmed": self.last_add_confirmed,
                    },
                )
            self.last_add_confirmed = self.proven = metadata.last_entry_id
            self.length_bytes = metadata.length_bytes
        else:
            # A writer starts a segment right behind what is confirmed, so what lies before it is.
            floor = metadata.last_segment.first_entry_id - 1
            self.last_add_confirmed = max(self.last_add_confirmed, floor)
            self.proven = max(self.proven, floor)

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


# Replicas.


class ReplicaOrder:
    """The order in which replicas are asked.

    Args:
        loop: whose time counts.
        doubt_s: for how long a bookie that failed or was slow is tried last.
        preferred: bookies to ask first, such as those of one's own rack.
    """

    __slots__ = ("_doubt_s", "_expiry", "_loop", "_preferred", "_until", "version")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, doubt_s: float, preferred: Iterable[str] = ()
    ) -> None:
        self._loop = loop
        self._doubt_s = doubt_s
        self._preferred = frozenset(preferred)
        self._until: dict[str, float] = {}
        self._expiry = 0.0
        self.version = 0
        """Changes whenever the order may have changed: callers may keep orders as long as it stays."""

    def doubt(self, bookie_id: str) -> None:
        """A bookie failed, or was slower than another: ask it last for a while."""
        if bookie_id not in self._until:
            self.version += 1
        self._until[bookie_id] = self._loop.time() + self._doubt_s
        self._expiry = min(self._until.values())

    def refresh(self) -> None:
        """Forget doubts whose time is over; cheap when there are none."""
        if self._until and self._loop.time() >= self._expiry:
            now = self._loop.time()
            self._until = {bookie: until for bookie, until in self._until.items() if until > now}
            self._expiry = min(self._until.values(), default=0.0)
            self.version += 1

    def ordered(self, candidates: Iterable[str]) -> tuple[str, ...]:
        """All candidates, the best first; among equals the given order stays."""
        preferred, until = self._preferred, self._until
        return tuple(sorted(candidates, key=lambda bookie: (bookie in until, bookie not in preferred)))
