"""The judge is shown bad histories, and bad clients on real bookies: it must object to each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from herdpy.bookkeeper import Entry, LedgerMetadata, LedgerState, Outcome, Segment
from tests.bookkeeper.faults.history import History, content_of, length_of
from tests.bookkeeper.faults.judge import Found, judge

LEDGER = 7
COUNT = 20
MEMBERS = ("a:1", "b:1", "c:1", "d:1")


def good():
    """A ledger of 20 entries, 18 of them acknowledged, that changed its ensemble at entry 10; striped."""
    history = History(LEDGER)
    for entry_id in range(COUNT):
        history.appended()
        if entry_id < COUNT - 2:
            history.acknowledged(entry_id, entry_id)
        else:
            history.failed(entry_id, RuntimeError("fenced"), Outcome.UNKNOWN)
    entries = [
        Entry(LEDGER, one, max(-1, one - 3), length_of(LEDGER, one + 1), content_of(LEDGER, one))
        for one in range(COUNT)
    ]
    for entry in entries:
        history.delivered("tail", entry)
    history.finished_tail("tail")
    end = COUNT - 1, length_of(LEDGER, COUNT)
    history.ended("recoverer", *end)
    metadata = LedgerMetadata(
        3,
        2,
        2,
        (Segment(0, MEMBERS[:3]), Segment(10, ("a:1", "d:1", "c:1"))),
        state=LedgerState.CLOSED,
        last_entry_id=end[0],
        length_bytes=end[1],
    )
    copies: dict[str, set[int]] = {member: set() for member in MEMBERS}
    for entry_id in range(COUNT):
        members = metadata.ensemble_at(entry_id).members
        for step in range(2):
            copies[members[(entry_id + step) % 3]].add(entry_id)
    found = Found(metadata, entries, {"plain": end}, ["NoSuchEntryError"], copies)
    return history, found


def test_a_good_history_passes():
    assert judge(*good()) == []


def changed(entry, **fields):
    whole = {"lac": entry.lac, "length": entry.length, "data": entry.data} | fields
    return Entry(entry.ledger_id, entry.entry_id, **whole)


def lost_at_the_end(history, found):
    """Recovery stopped too early: acknowledged entries are gone."""
    end = 15, length_of(LEDGER, 16)
    found.metadata = replace(found.metadata, last_entry_id=end[0], length_bytes=end[1])
    found.entries = found.entries[:16]
    found.ends, history.ends, history.tails = {"plain": end}, {}, {"tail": 15}
    history.highest_lac = 15


def lost_in_the_middle(history, found):
    del found.entries[8]


def doubled(history, found):
    found.entries.insert(8, found.entries[8])


def swapped(history, found):
    found.entries[8:10] = [found.entries[9], found.entries[8]]


def moved_bytes(history, found):
    found.entries[8] = changed(found.entries[8], data=content_of(LEDGER, 9))


def of_another_ledger(history, found):
    found.entries[8] = changed(found.entries[8], data=content_of(LEDGER + 1, 8))


def confirmed_itself(history, found):
    found.entries[8] = changed(found.entries[8], lac=8)


def wrong_running_length(history, found):
    found.entries[8] = changed(found.entries[8], length=found.entries[8].length + 1)


def wrong_length(history, found):
    end = COUNT - 1, length_of(LEDGER, COUNT) - 1
    found.metadata = replace(found.metadata, length_bytes=end[1])
    found.ends, history.ends = {"plain": end}, {"recoverer": end}


def left_open(history, found):
    found.metadata = replace(found.metadata, state=LedgerState.IN_RECOVERY, last_entry_id=-1, length_bytes=0)


def two_ends(history, found):
    history.ended("other recoverer", COUNT - 2, length_of(LEDGER, COUNT - 1))


def second_open_differs(history, found):
    found.ends["again"] = COUNT - 2, length_of(LEDGER, COUNT - 1)


def readable_beyond(history, found):
    found.beyond.append("entry [20]")


def unknown_beyond(history, found):
    found.beyond.append("TimedOutError")


def acknowledged_after_the_fence(history, found):
    history.appended()
    history.failed(COUNT, RuntimeError("no"), Outcome.UNKNOWN)
    history.acknowledged_to = COUNT


def acknowledged_out_of_order(history, found):
    history.acknowledged(COUNT, COUNT)


def refused_and_there(history, found):
    history.refused[COUNT - 1] = Outcome.NOT_DONE


def from_nowhere(history, found):
    history.appended_to = COUNT - 2


def tail_beyond_the_end(history, found):
    """A tail that ignores the last add confirmed gave what recovery then dropped."""
    history.delivered("tail", Entry(LEDGER, COUNT, COUNT - 1, 0, content_of(LEDGER, COUNT)))


def tail_skipped(history, found):
    history.tails["tail"] = 4
    history.delivered("tail", found.entries[6])


def tail_ended_early(history, found):
    history.tails["tail"] = 4


def late_acknowledgement_counted(history, found):
    """An entry counted the copy on a bookie that was replaced, and has one copy where the metadata say."""
    found.copies["d:1"] -= {13}


def copies_on_the_replaced_bookie(history, found):
    found.copies["b:1"] |= {13}
    found.copies["d:1"] -= {13}


@pytest.mark.parametrize(
    "spoil",
    [
        lost_at_the_end,
        lost_in_the_middle,
        doubled,
        swapped,
        moved_bytes,
        of_another_ledger,
        confirmed_itself,
        wrong_running_length,
        wrong_length,
        left_open,
        two_ends,
        second_open_differs,
        readable_beyond,
        unknown_beyond,
        acknowledged_after_the_fence,
        acknowledged_out_of_order,
        refused_and_there,
        from_nowhere,
        tail_beyond_the_end,
        tail_skipped,
        tail_ended_early,
        late_acknowledgement_counted,
        copies_on_the_replaced_bookie,
    ],
)
def test_a_bad_history_is_caught(spoil):
    history, found = good()
    spoil(history, found)
    assert judge(history, found)
