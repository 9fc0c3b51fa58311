"""Bugs to put into the client: the simulation has to notice each of them.

Each is a context manager that patches the client while it is entered. They are mistakes that a client for
BookKeeper can make, and that work well until something fails at the wrong moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from herdpy.bookkeeper.errors import BookKeeperError, Outcome
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore
from herdpy.bookkeeper.placement import Coverage
from herdpy.bookkeeper.read.entry_read import EntryReader
from herdpy.bookkeeper.read.recovery import ReAdds
from herdpy.bookkeeper.wire import messages
from herdpy.bookkeeper.wire.entries import AddEncoder, encode_read
from herdpy.bookkeeper.write import pipeline as pipeline_module
from herdpy.bookkeeper.write.pipeline import Add, Pipeline

Bug = Callable[[], AbstractContextManager[None]]
BUGS: dict[str, Bug] = {}


def _bug(make: Callable[[], Iterator[None]]) -> Bug:
    bug = contextmanager(make)
    BUGS[make.__name__] = bug
    return bug


@_bug
def drops_the_fence() -> Iterator[None]:
    """Recovery reads without fencing, so the writer goes on."""

    def fence_read(txn: int, ledger_id: int, master_key: bytes, entry_id: int = -1) -> bytes:
        return encode_read(txn, ledger_id, entry_id)

    with patch.object(messages, "fence_read", fence_read):
        yield


@_bug
def counts_acks_of_replaced_bookies() -> Iterator[None]:
    """What a replaced bookie has acknowledged, or acknowledges late, counts for its successor."""
    reply, use = Add.on_add_reply, Pipeline.use

    def late(self: Add, bookie: Any, status: int) -> None:
        if not status and bookie not in self.pipeline.bit_of:
            missing = self.targets & ~self.acked
            self.acked |= missing & -missing
        reply(self, bookie, status)

    def keep(self: Pipeline, bookies: Sequence[Any], deadline_s: float) -> None:
        acknowledged = [(add, add.acked) for add in self.pending]
        use(self, bookies, deadline_s)
        for add, acked in acknowledged:
            add.acked |= acked
        self.confirm()

    with patch.object(Add, "on_add_reply", late), patch.object(Pipeline, "use", keep):
        yield


@_bug
def counts_answers_as_if_not_striped() -> Iterator[None]:
    """Coverage is W - A + 1 answers, whichever they are: right only where E is W."""

    def is_covered(self: Any) -> bool:
        return sum(self._answered) >= len(self._write_sets[0]) - self._quorum + 1

    with patch.object(Coverage, "is_covered", is_covered):
        yield


@_bug
def completes_out_of_order() -> Iterator[None]:
    """An entry is acknowledged when its own quorum has it, whatever became of those before it."""
    correct = Add.on_add_reply

    def on_add_reply(self: Add, bookie: Any, status: int) -> None:
        correct(self, bookie, status)
        pipeline: Any = self.pipeline
        if self.acked.bit_count() >= pipeline._ack_quorum and not self.future.done():
            self.future.set_result(self.entry_id)

    with patch.object(Add, "on_add_reply", on_add_reply):
        yield


@_bug
def does_not_send_again() -> Iterator[None]:
    """After an ensemble change what the old bookies have counts, and the new ones never get it."""

    def use(self: Any, bookies: Sequence[Any], deadline_s: float) -> None:
        self._adopt(bookies)
        self.changing = False
        self.confirm()

    with patch.object(Pipeline, "use", use):
        yield


@_bug
def trusts_one_missing_entry() -> Iterator[None]:
    """One replica without an entry proves that it was never confirmed."""
    correct = EntryReader.__init__

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        correct(self, *arguments, **options)
        self.missing_proof = 1

    with patch.object(EntryReader, "__init__", init):
        yield


@_bug
def closes_without_waiting() -> Iterator[None]:
    """close() ends the ledger at the last add confirmed while entries are in flight."""

    async def reached(self: Pipeline, entry_id: int) -> None:
        await asyncio.sleep(0)

    with patch.object(Pipeline, "reached", reached):
        yield


@_bug
def tells_a_lac_too_high() -> Iterator[None]:
    """Entries carry what was sent before them as confirmed."""
    correct = AddEncoder.encode

    def encode(self: AddEncoder, txn: int, entry_id: int, lac: int, length: int, data: bytes) -> bytes:
        return correct(self, txn, entry_id, entry_id - 1, length, data)

    with patch.object(AddEncoder, "encode", encode):
        yield


@_bug
def does_not_add_again() -> Iterator[None]:
    """Recovery keeps what it finds without seeing to it that an ack quorum has it."""

    def add(self: ReAdds, entry_id: int, body: bytes) -> None:
        self.confirmed = entry_id

    with patch.object(ReAdds, "add", add):
        yield


@_bug
def says_not_done_of_what_may_be() -> Iterator[None]:
    """Appends in flight when the writer fails are called undone."""
    correct = pipeline_module.restated

    def restated(error: BookKeeperError, outcome: Outcome, entry_id: int | None = None) -> BookKeeperError:
        return correct(error, Outcome.NOT_DONE, entry_id)

    with patch.object(pipeline_module, "restated", restated):
        yield


@_bug
def overwrites_metadata() -> Iterator[None]:
    """Metadata are written whatever their version is."""
    correct = LedgerStore.write

    async def write(self: Any, ledger_id: int, metadata: Any, version: int) -> Any:
        return await correct(self, ledger_id, metadata, -1)

    with patch.object(LedgerStore, "write", write):
        yield


@_bug
def believes_a_bookie_that_lost_its_disk() -> Iterator[None]:
    """The "nothing" of a bookie whose disks are new proves that there was nothing."""

    async def remade(self: Any, ledger_id: int, bookie_ids: Any) -> frozenset[str]:
        return frozenset()

    with patch.object(LedgerStore, "remade", remade):
        yield
