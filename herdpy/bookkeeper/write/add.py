"""One entry on its way to its bookies: what each connection holds until that bookie has answered.

The bottom of the write path, below ``pipeline``, which owns the order of the entries. Every reply to every
replica comes in here, so this is the hot path: an entry counts its acknowledgements as bits of one integer,
one bit for each index of the ensemble.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie.handle import Bookie
    from herdpy.bookkeeper.write.pipeline import Pipeline


class AppendSink(Protocol):
    """Who is told what became of an entry: a future, or what acts upon it at once (``LedgerWriter.send``)."""

    def done(self) -> bool:
        """Whether nobody wants to know any more; then it is told nothing."""

    def set_result(self, entry_id: int, /) -> None:
        """The entry is confirmed."""

    def set_exception(self, error: BaseException, /) -> None:
        """The ledger's writer has ended before."""


class Add:
    """An entry, from its place in the ledger until its last replica has answered.

    Attributes:
        entry_id: its place.
        length: data bytes in the ledger up to and including it.
        txn, frame: the request as sent, the same to every replica; the frame is dropped once it is confirmed.
        size_bytes: of the frame.
        targets: the bits of its write set.
        acked: the bits of those bookies, of the present ensemble, that have it.
        future: the caller's; it is told the entry id.
        deadline_s: when a bookie that was sent it has not answered in time (loop time).
    """

    __slots__ = (
        "acked",
        "deadline_s",
        "entry_id",
        "frame",
        "future",
        "length",
        "pipeline",
        "size_bytes",
        "targets",
        "txn",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        entry_id: int,
        length: int,
        txn: int,
        frame: bytes,
        future: AppendSink,
        deadline_s: float,
    ) -> None:
        self.pipeline = pipeline
        self.entry_id = entry_id
        self.length = length
        self.txn = txn
        self.frame = frame
        self.size_bytes = len(frame)
        self.targets = 0
        self.acked = 0
        self.future = future
        self.deadline_s = deadline_s

    def on_add_reply(self, bookie: Bookie, status: int) -> None:
        """A replica answered; called once for each time the entry was sent."""
        pipeline = self.pipeline
        if status:
            pipeline.refused(self, bookie, status)
        else:
            # A bookie that left the ensemble has no bit, so it counts for nothing.
            self.acked |= pipeline.bit_of.get(bookie, 0) & self.targets
            unsettled = bookie.unsettled
            if unsettled is not None:
                unsettled[pipeline] = None
                return
        pipeline.settle()


class Resent:
    """An entry sent again, to the successor of a bookie that failed; it has a time-out of its own."""

    __slots__ = ("_add", "deadline_s", "size_bytes")

    def __init__(self, add: Add, deadline_s: float) -> None:
        self._add = add
        self.deadline_s = deadline_s
        self.size_bytes = add.size_bytes

    def on_add_reply(self, bookie: Bookie, status: int) -> None:
        """The successor answered."""
        self._add.on_add_reply(bookie, status)
