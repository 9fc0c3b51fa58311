"""Bugs that a test of their own catches: each test holds, and with the bug put in it would not."""

from __future__ import annotations

import pytest

from herdpy.log import ChainError, CorruptLedgerError, TransactionAssembler
from herdpy.log.entry import LogEntry
from tests.log.conftest import Disk, Kit
from tests.simulation.seeded_bugs import does_not_check_the_chain

FILE = "0000000001.ledger"


def with_a_gap() -> Disk:
    """A log of three entries of one size, the second of which was taken out without a trace."""
    disk = Disk()
    log, ends = Kit.open(disk), []
    for number in (1, 2, 3):
        Kit.put(log, number)
        ends.append(len(bytes(disk.content(FILE)).rstrip(b"\0")))
    node = disk.content(FILE)
    del node[ends[0] : ends[1]]
    return disk.copy()


def do_not_compare_predecessors(patch: pytest.MonkeyPatch) -> None:
    feed = TransactionAssembler.feed

    def trusting(self, entry: LogEntry):
        self.position, self.crc = entry.header.predecessor, None
        return feed(self, entry)

    patch.setattr(TransactionAssembler, "feed", trusting)


def test_a_gap_in_a_ledger_is_refused() -> None:
    with pytest.raises(CorruptLedgerError) as caught:
        Kit.numbers(Kit.open(with_a_gap()))
    assert (caught.value.ledger_id, caught.value.entry_id) == (1, 1)


def test_who_applies_checks_the_chain_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    does_not_check_the_chain(monkeypatch)
    with pytest.raises(ChainError):
        Kit.numbers(Kit.open(with_a_gap()))


def test_with_both_checks_off_the_gap_would_go_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    does_not_check_the_chain(monkeypatch)
    do_not_compare_predecessors(monkeypatch)
    assert Kit.numbers(Kit.open(with_a_gap())) == [1, 3]
