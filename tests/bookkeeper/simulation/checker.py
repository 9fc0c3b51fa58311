"""Judges a ledger's history against the ledger as it finally is."""

from __future__ import annotations

from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.errors import Outcome
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from tests.bookkeeper.simulation.history import LedgerHistory


def check(history: LedgerHistory, metadata: LedgerMetadata, entries: list[Entry]) -> None:
    """Note every broken promise; `entries` is all that can be read of the closed ledger."""
    if metadata.state is not LedgerState.CLOSED:
        history.break_promise(f"is not closed in the end but {metadata.state}")
    _check_entries(history, metadata, entries)
    _check_appends(history, entries)
    _check_ends(history, metadata)
    _check_readers(history, metadata, entries)


def _check_entries(history: LedgerHistory, metadata: LedgerMetadata, entries: list[Entry]) -> None:
    ids = [entry.entry_id for entry in entries]
    if ids != list(range(metadata.last_entry_id + 1)):
        history.break_promise(f"holds the entries {ids}, and its last one is {metadata.last_entry_id}")
    length = 0
    for entry in entries:
        length += len(entry.data)
        if entry.length != length:
            history.break_promise(f"entry {entry.entry_id} tells length {entry.length}, not {length}")
    if metadata.length_bytes != length:
        history.break_promise(f"has length {metadata.length_bytes}, and {length} bytes are in it")


def _check_appends(history: LedgerHistory, entries: list[Entry]) -> None:
    numbers = {append.data: append.number for append in history.appends}
    found = [numbers.get(entry.data) for entry in entries]
    if None in found:
        history.break_promise(f"holds what nobody appended, at entry {found.index(None)}")
    present = [number for number in found if number is not None]
    if present != sorted(set(present)):
        history.break_promise(f"holds appends {present}: not in order, or not once")
    final = {entry.entry_id: entry.data for entry in entries}
    for append in history.appends:
        if append.entry_id in final and final[append.entry_id] != append.data:
            history.break_promise(f"entry {append.entry_id} is another one than was acknowledged")
        if history.is_safe(append) and append.entry_id not in final:
            history.break_promise(f"acknowledged entry {append.entry_id} is not there")
        if append.outcome is Outcome.NOT_DONE and append.number in present:
            history.break_promise(
                f"append {append.number} is there, and was reported as failed: {append.error}"
            )


def _check_ends(history: LedgerHistory, metadata: LedgerMetadata) -> None:
    final = (metadata.last_entry_id, metadata.length_bytes)
    for end in history.ends:
        if (end.last_entry_id, end.length_bytes) != final:
            history.break_promise(
                f"ends at {final}, and {end.who} saw {(end.last_entry_id, end.length_bytes)}"
            )


def _check_readers(history: LedgerHistory, metadata: LedgerMetadata, entries: list[Entry]) -> None:
    final = {entry.entry_id: entry.data for entry in entries}
    for entry_id, (who, data) in history.reads.items():
        if final.get(entry_id) != data:
            history.break_promise(f"{who} read an entry {entry_id} that is not in the final ledger")
    if history.highest_lac > metadata.last_entry_id:
        history.break_promise(f"a reader saw LAC {history.highest_lac}, the end is {metadata.last_entry_id}")
    for who in history.finished_tails:
        if len(history.tails.get(who, ())) != len(entries):
            history.break_promise(
                f"{who} ended after {len(history.tails.get(who, ()))} of {len(entries)} entries"
            )
