"""The spans of the log's entries: written by the leader, applied by all.

Above ``statements``, beside the log: ``LogWatch`` of ``herdpy.log.commit_log`` says what it calls. An entry
has the commits of several transactions. It is a step of the first one that is traced, and links to the
others, whose waits in turn link to it.

A follower does not know whose commits an entry has, because the log does not say that. So every entry has a
trace of its own, whose id follows from the log's name and the entry's position: each replica that records it
puts its ``apply`` there, and the leader puts a span there that links to the commits. Whether such a trace is
recorded follows from its id and the server's ratio, so that all replicas record the same entries
(``docs/decisions``).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from time import time_ns
from typing import TYPE_CHECKING

from herdpy_server.tracing.spans import Attributes, SpanQueue, SpanRecord, harmless, new_span_id
from herdpy_server.tracing.statements import CommitTrace, internal

if TYPE_CHECKING:
    from herdpy.log import LSN, Append

_SHARES = 1 << 64


def trace_of_entry(log: str, lsn: LSN) -> int:
    """The id of the trace that all replicas have for an entry of a log."""
    name = f"{log}\0{lsn.ledger_id}:{lsn.entry_id}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=16).digest()) or 1


def is_recorded(trace_id: int, ratio: float) -> bool:
    """Whether that trace is recorded, as every replica with this ratio decides it."""
    return trace_id % _SHARES < ratio * _SHARES


def _position(lsn: LSN) -> Attributes:
    return {"herdpy.ledger_id": lsn.ledger_id, "herdpy.entry_id": lsn.entry_id}


class EntryTracer:
    """Of one log on this server; a ``LogWatch``, and for followers :meth:`applying`.

    Args:
        log: its name, the same on all replicas: the tablespace's uuid, or its name.
        synced: called with the seconds that a traced entry took to become durable, and its trace.
    """

    def __init__(
        self,
        queue: SpanQueue,
        commits: dict[int, CommitTrace],
        *,
        ratio: float,
        log: str,
        tablespace: str,
        synced: Callable[[float, int], object] = lambda _seconds, _trace: None,
    ) -> None:
        self.queue = queue
        self.synced = synced
        self.tablespace = tablespace
        self._commits = commits
        self._ratio = ratio
        self._log = log
        self._times: dict[int, tuple[int, int]] = {}  # of groups, by their first append
        self._mutex = threading.Lock()

    def traced(self, appends: Sequence[Append]) -> list[CommitTrace]:
        """Those of the appends that belong to a trace."""
        commits = self._commits
        if not commits:
            return []
        found = [commits.get(id(append)) for append in appends]
        return [one for one in found if one is not None]

    def mark(self, lsn: LSN, written: SpanRecord, commits: Sequence[CommitTrace]) -> None:
        """Have the entry's own trace name the commits; where that is recorded at all."""
        trace_id = trace_of_entry(self._log, lsn)
        if is_recorded(trace_id, self._ratio):
            span = SpanRecord("log entry", trace_id, 0, began_ns=written.began_ns, attributes=_position(lsn))
            span.attributes["db.namespace"] = self.tablespace
            span.links = tuple((one.span.trace_id, one.span.span_id) for one in commits)
            written.links = (*written.links, (trace_id, span.span_id))
            self.queue.put(span.ends(written.ended_ns))

    # Of entries that go to bookies.

    @harmless
    def entry(self, appends: Sequence[Append]) -> BookieEntry | None:
        """See LogWatch."""
        commits = self.traced(appends)
        return BookieEntry(self, commits, len(appends)) if commits else None

    # Of groups that go to a file.

    @harmless
    def writing(self, appends: Sequence[Append]) -> None:
        """See LogWatch."""
        with self._mutex:
            self._times[id(appends[0])] = time_ns(), 0

    @harmless
    def written(self, appends: Sequence[Append]) -> None:
        """See LogWatch."""
        with self._mutex:
            began_ns, _ = self._times.get(id(appends[0]), (time_ns(), 0))
            self._times[id(appends[0])] = began_ns, time_ns()

    @harmless
    def applied(self, appends: Sequence[Append]) -> None:
        """See LogWatch."""
        with self._mutex:
            began_ns, ended_ns = self._times.pop(id(appends[0]), (0, 0))
        commits = self.traced(appends)
        lsn = appends[-1].lsn
        if not commits or not ended_ns or lsn is None:
            return
        now = time_ns()
        written = self.append_span(commits, len(appends), began_ns)
        written.attributes |= _position(lsn)
        written.ends(ended_ns)
        self.queue.put(internal("apply", written, ended_ns, now, _position(lsn)))
        self.finish(written, commits, lsn, ended_ns)

    @harmless
    def failed(self, appends: Sequence[Append]) -> None:
        """See LogWatch."""
        with self._mutex:
            self._times.pop(id(appends[0]), None)

    # Of both.

    def append_span(self, commits: Sequence[CommitTrace], transactions: int, began_ns: int) -> SpanRecord:
        """The span of an entry that is written: below the first of the commits, with links to the others."""
        first = commits[0].span
        span = SpanRecord("log append", first.trace_id, first.span_id, began_ns=began_ns)
        span.attributes["herdpy.transactions"] = transactions
        span.links = tuple((one.span.trace_id, one.span.span_id) for one in commits[1:])
        return span

    def finish(self, written: SpanRecord, commits: Sequence[CommitTrace], lsn: LSN, ended_ns: int) -> None:
        """An entry is durable and applied."""
        for one in commits[1:]:
            one.span.links = (*one.span.links, (written.trace_id, written.span_id))
        self.mark(lsn, written, commits)
        self.queue.put(written)
        self.synced((ended_ns - written.began_ns) / 1e9, written.trace_id)

    # Followers.

    @harmless
    def applying(self, lsn: LSN) -> SpanRecord | None:
        """A follower begins to apply an entry; the span for :meth:`end`, None: it is not traced."""
        trace_id = trace_of_entry(self._log, lsn)
        if not is_recorded(trace_id, self._ratio):
            return None
        span = SpanRecord("apply", trace_id, 0, span_id=new_span_id(), attributes=_position(lsn))
        span.attributes["db.namespace"] = self.tablespace
        return span

    @harmless
    def end(self, span: SpanRecord) -> None:
        """It is applied."""
        self.queue.put(span.ends())


class BookieEntry:
    """One entry on its way to bookies; an ``EntryWatch``."""

    def __init__(self, tracer: EntryTracer, commits: Sequence[CommitTrace], transactions: int) -> None:
        self._tracer = tracer
        self._commits = commits
        self._transactions = transactions
        self._lsn: LSN | None = None
        self._span: SpanRecord | None = None
        self._confirmed_ns = 0

    @harmless
    def sent(self, lsn: LSN, size_bytes: int) -> None:
        """See EntryWatch."""
        self._lsn = lsn
        self._span = span = self._tracer.append_span(self._commits, self._transactions, time_ns())
        span.attributes |= _position(lsn)
        span.attributes["herdpy.entry_bytes"] = size_bytes

    @harmless
    def answered(self, bookie_id: str, status: int) -> None:
        """See EntryWatch."""
        written = self._span
        if written is None:
            return
        attributes: Attributes = {"herdpy.bookie": bookie_id}
        span = internal("bookie add", written, written.began_ns, time_ns(), attributes)
        span.kind = "client"
        if status:
            span.error = f"status {status}"
        self._tracer.queue.put(span)

    @harmless
    def confirmed(self) -> None:
        """See EntryWatch."""
        self._confirmed_ns = time_ns()

    @harmless
    def applied(self) -> None:
        """See EntryWatch."""
        written, lsn = self._span, self._lsn
        if written is None or lsn is None:
            return
        written.ends(self._confirmed_ns)
        self._tracer.queue.put(internal("apply", written, written.ended_ns, time_ns(), _position(lsn)))
        self._tracer.finish(written, self._commits, lsn, self._confirmed_ns)
