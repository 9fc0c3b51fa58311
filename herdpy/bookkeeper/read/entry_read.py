"""One entry from one of its replicas: the next is asked when one fails, lacks it, lies, or is late.

Between those who want entries (``window``, ``recovery``) and the bookies. ``EntryReader`` holds what all
reads of a ledger share; ``EntryRead`` is one read, a receiver of replies rather than a task, because
reading is the path where microseconds count. The first body whose digest and ids are right wins; replies
that come later are ignored.

When no replica gave the entry, what was not heard decides which error it is. An entry that the ack quorum A
has can be missing on at most W - A of its W replicas: so only W - A + 1 replicas without it prove to a
recovery that it was never confirmed, and fewer leave it open (client/PendingReadOp.java,
client/ReadOpBase.java). A replica that lost its disks since is none of them. Who reads what was confirmed
has no use for that proof: as long as one replica is not heard, the entry may be there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from herdpy.bookkeeper.bookie.pending import AwaitedEntry
from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.errors import (
    BookieUnavailableError,
    BookKeeperError,
    DigestMismatchError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from herdpy.bookkeeper.read.quorum import made_anew
from herdpy.bookkeeper.wire.replies import ReadReply

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import Bookie
    from herdpy.bookkeeper.read.entry_reader import EntryReader

log = logging.getLogger("herdpy.bookkeeper.reader")


class EntryRead(AwaitedEntry):
    """One read. Exactly one of ``entry`` and ``error`` is set when it is done.

    Attributes:
        entry_id, members: what is read, from which ensemble.
        entry: the entry; body: as it was sealed (kept for recovery only).
        error: why no replica gave it, naming what each of them said.
    """

    __slots__ = (
        "_missing",
        "_on_done",
        "_pending",
        "_problems",
        "_reader",
        "asked",
        "body",
        "entry",
        "error",
        "is_done",
        "members",
        "replicas",
        "speculate_at",
    )

    def __init__(
        self,
        reader: EntryReader,
        entry_id: int,
        members: tuple[str, ...],
        on_done: Callable[[EntryRead], None],
    ) -> None:
        self.ledger_id = reader.ledger_id
        self.entry_id = entry_id
        self.members = members
        self.replicas: tuple[Bookie, ...] = ()
        self.asked = 0
        self.speculate_at = 0.0
        self.entry: Entry | None = None
        self.body: bytes | None = None
        self.error: BookKeeperError | None = None
        self.is_done = False
        self._reader = reader
        self._on_done = on_done
        self._pending = 0
        self._missing = 0
        self._problems: dict[str, BookKeeperError] | None = None

    def begun(self, replicas: tuple[Bookie, ...], speculate_at: float) -> None:
        """The first of these replicas is being asked by the caller."""
        self.replicas = replicas
        self.speculate_at = speculate_at
        self.asked = self._pending = 1

    def ask_next(self) -> None:
        """Send the read to the next replica."""
        asked = self.asked
        replica = self.replicas[asked]
        self.asked = asked + 1
        self._pending += 1
        reader = self._reader
        sink = _OtherReplica(self, replica) if asked else self
        replica.send_read(reader.ledger_id, self.entry_id, sink, fence_key=reader.fence_key)

    def cancel(self) -> None:
        """Want it no longer: replies are ignored, ``on_done`` is not called."""
        if not self.is_done:
            self.is_done = True
            del self._reader.outstanding[self]

    def fail(self, error: BookKeeperError) -> None:
        """End it with an error of the caller's."""
        if not self.is_done:
            self.error = error
            self._finish()

    # What a bookie's handle calls for the first replica asked (as it would a future).

    def done(self) -> bool:
        """Whether nobody waits for a reply any more."""
        return self.is_done

    def entry_arrived(self, frame: bytes, start: int, end: int) -> None:
        """The first replica replied, in the usual form."""
        reader = self._reader
        if self.is_done or self.asked > 1 or reader.fence_key is not None:
            self._arrived(self.replicas[0], frame, start, end)
            return
        try:
            self.entry = reader.digest.open_at(frame, start, end, self.ledger_id, self.entry_id)
        except DigestMismatchError as error:
            self._pending -= 1
            self._mismatch(self.replicas[0], error)
            return
        self.is_done = True
        del reader.outstanding[self]
        self._on_done(self)

    def set_result(self, reply: object, /) -> None:
        """The first replica replied."""
        self.replied(self.replicas[0], reply)

    def set_exception(self, error: BaseException, /) -> None:
        """The first replica refused, or could not be reached."""
        self.refused(self.replicas[0], error)

    def replied(self, bookie: Bookie, reply: object) -> None:
        """A replica gave something."""
        body = (reply.body if type(reply) is ReadReply else None) or b""
        self._arrived(bookie, body, 0, len(body))

    def _arrived(self, bookie: Bookie, frame: bytes, start: int, end: int) -> None:
        """Is this the entry?"""
        if self.is_done:
            return
        reader = self._reader
        try:
            self.entry = reader.digest.open_at(frame, start, end, self.ledger_id, self.entry_id)
        except DigestMismatchError as error:
            self._pending -= 1
            self._mismatch(bookie, error)
            return
        if reader.fence_key is not None:
            self.body = frame[start:end]
        if self.asked > 1:
            self._blame_the_late(bookie)
        self._finish()

    def refused(self, bookie: Bookie, error: BaseException) -> None:
        """A replica has not the entry, or failed."""
        if self.is_done:
            return
        if not isinstance(error, BookKeeperError):
            raise error
        self._pending -= 1
        self._failed(bookie, error)

    def _mismatch(self, bookie: Bookie, error: DigestMismatchError) -> None:
        reader = self._reader
        reader.digest_mismatches += 1
        log.warning(
            "a replica does not match its digest",
            extra={"ledger_id": reader.ledger_id, "entry_id": self.entry_id, "bookie": bookie.id},
        )
        error.bookie = bookie.id
        self._failed(bookie, error)

    def _blame_the_late(self, winner: Bookie) -> None:
        """Replicas asked earlier that have said nothing yet are slow."""
        problems = self._problems or {}
        for replica in self.replicas[: self.asked]:
            if replica is winner:
                break
            if replica.id not in problems:
                self._reader.order.doubt(replica.id)

    def _failed(self, bookie: Bookie, error: BookKeeperError) -> None:
        if self._problems is None:
            self._problems = {}
        if bookie.id in self._reader.remade and isinstance(error, NoSuchEntryError | NoSuchLedgerError):
            error = made_anew(bookie.id)
        self._problems[bookie.id] = error
        if isinstance(error, NoSuchEntryError | NoSuchLedgerError):
            self._missing += 1
            if self._reader.fence_key is not None and self._missing >= self._reader.missing_proof:
                self.error = self._outcome()
                self._finish()
                return
        elif not isinstance(error, DigestMismatchError):
            self._reader.order.doubt(bookie.id)
        if self._pending:
            return
        if self.asked < len(self.replicas):
            self.ask_next()
        else:
            self.error = self._outcome()
            self._finish()

    def _outcome(self) -> BookKeeperError:
        """The error for what all replicas said."""
        problems = self._problems or {}
        said = "; ".join(f"{bookie}: {error.message}" for bookie, error in problems.items())
        kinds = list(problems.values())
        kind: type[BookKeeperError]
        if self._missing >= self._reader.missing_proof:
            kind = NoSuchEntryError
        else:
            # What may pass counts more than what will not: trying again can help only then.
            others = [one for one in kinds if not isinstance(one, NoSuchEntryError | NoSuchLedgerError)]
            passing = [one for one in others if not isinstance(one, DigestMismatchError)]
            away = [one for one in passing if isinstance(one, BookieUnavailableError)]
            kind = type((away or passing or others)[0])
        return kind(
            f"no replica gave the entry: {said}", ledger_id=self._reader.ledger_id, entry_id=self.entry_id
        )

    def _finish(self) -> None:
        self.is_done = True
        del self._reader.outstanding[self]
        self._on_done(self)


class _OtherReplica:
    """Takes the reply of a replica asked after the first one."""

    __slots__ = ("_bookie", "_read")

    def __init__(self, read: EntryRead, bookie: Bookie) -> None:
        self._read = read
        self._bookie = bookie

    def done(self) -> bool:
        """Whether nobody waits for a reply any more."""
        return self._read.is_done

    def set_result(self, reply: object, /) -> None:
        """This replica replied."""
        self._read.replied(self._bookie, reply)

    def set_exception(self, error: BaseException, /) -> None:
        """This replica refused, or could not be reached."""
        self._read.refused(self._bookie, error)
