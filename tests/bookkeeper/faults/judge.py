"""The common judge of all faults: what is left of a ledger, against what clients know of it.

`find` looks at the ledger after the faults are healed, with clients of its own, in every way there is; it
changes nothing but that a ledger left open is recovered. `judge` is pure, so that it can be shown a bad
history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from herdpy.bookkeeper import (
    BookKeeper,
    BookKeeperError,
    ClientSettings,
    Entry,
    LedgerMetadata,
    LedgerReader,
    LedgerState,
    NoSuchEntryError,
    NoSuchLedgerError,
    Outcome,
)
from herdpy.bookkeeper.placement import write_set
from tests.bookkeeper.faults.history import History, content_of, length_of

CALM = ClientSettings(request_timeout_s=10.0, connect_timeout_s=10.0, speculative_read_s=1.0)
"""Once everything is healed there is no hurry."""


@dataclass
class Found:
    """A ledger as it finally is.

    `ends` is the end as each way to open the ledger shows it. `beyond` is what reading behind the end gave:
    the error's name, or "entry N". `copies` says which entries each bookie lists. `is_resealed`: auto
    recovery copied entries, and sealed them anew with what is confirmed since.
    """

    metadata: LedgerMetadata
    entries: list[Entry] = field(default_factory=list)
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    beyond: list[str] = field(default_factory=list)
    copies: Mapping[str, frozenset[int]] = field(default_factory=dict)
    is_resealed: bool = False


async def find(uri: str, ledger_id: int) -> Found:
    """Look at a ledger of a healthy cluster; recovers it first if it is not closed."""
    async with BookKeeper(uri, settings=CALM) as first, BookKeeper(uri, settings=CALM) as second:
        recovered = await first.open_ledger(ledger_id, recover=True)
        again = await second.open_ledger(ledger_id, recover=True)
        plain = await second.open_ledger(ledger_id)
        found = Found(await second.ledger_metadata(ledger_id))
        for who, reader in (("recovered", recovered), ("again", again), ("plain", plain)):
            found.ends[who] = reader.last_add_confirmed, reader.length_bytes
            found.beyond.append(await _beyond(reader))
        if plain.last_add_confirmed >= 0:
            found.entries = [entry async for entry in plain.read(0, plain.last_add_confirmed)]
        tailed = [entry.entry_id async for entry in again.tail(0)]
        found.ends["tailed"] = tailed[-1] if tailed else -1, found.ends["again"][1]
        found.copies = await _copies(second, ledger_id, found.metadata)
        return found


async def _beyond(reader: LedgerReader) -> str:
    """What reading the entry behind the end gives."""
    behind = reader.last_add_confirmed + 1
    try:
        got = [entry.entry_id async for entry in reader.read_unconfirmed(behind, behind)]
    except BookKeeperError as error:
        return type(error).__name__
    return f"entry {got}"


async def _copies(bk: BookKeeper, ledger_id: int, metadata: LedgerMetadata) -> dict[str, frozenset[int]]:
    copies = {}
    for bookie_id in sorted({member for segment in metadata.segments for member in segment.members}):
        try:
            listed = await bk._open_parts().pool.get(bookie_id).list_entries(ledger_id)
        except (NoSuchLedgerError, NoSuchEntryError):
            listed = []
        copies[bookie_id] = frozenset(listed)
    return copies


def judge(history: History, found: Found) -> list[str]:
    """Every promise that was broken, in words; empty when all is well."""
    return [
        *history.wrong,
        *_judge_end(history, found),
        *_judge_entries(history, found),
        *_judge_appends(history, found),
        *_judge_readers(history, found),
        *_judge_copies(found),
    ]


def _judge_end(history: History, found: Found) -> list[str]:
    metadata = found.metadata
    end = metadata.last_entry_id, metadata.length_bytes
    broken = [] if metadata.state is LedgerState.CLOSED else [f"the ledger is {metadata.state.name}"]
    for who, seen in (history.ends | found.ends).items():
        if seen != end:
            broken.append(f"{who} saw the end {seen}, the metadata say {end}")
    if end[1] != length_of(history.ledger_id, end[0] + 1):
        broken.append(f"the length of {end[0] + 1} entries is said to be {end[1]}")
    wrong = [seen for seen in found.beyond if seen != NoSuchEntryError.__name__]
    return broken + [f"reading behind the end gave {seen}" for seen in wrong]


def _judge_entries(history: History, found: Found) -> list[str]:
    last = found.metadata.last_entry_id
    ids = [entry.entry_id for entry in found.entries]
    broken = []
    if ids != list(range(last + 1)):
        many = [entry_id for entry_id, times in Counter(ids).items() if times > 1]
        lost = sorted(set(range(last + 1)) - set(ids))
        broken.append(f"of {last + 1} entries {lost} are missing, {many} are doubled, or the order is wrong")
    length = 0
    for entry in found.entries:
        length += len(entry.data)
        if entry.data != content_of(history.ledger_id, entry.entry_id):
            broken.append(f"entry {entry.entry_id} has other bytes than were appended")
        if entry.length != length:
            broken.append(f"entry {entry.entry_id} says length {entry.length}, it is {length}")
        if entry.lac >= (last + 1 if found.is_resealed else entry.entry_id):
            broken.append(f"entry {entry.entry_id} was confirmed ({entry.lac}) before it was sent")
    return broken


def _judge_appends(history: History, found: Found) -> list[str]:
    last = found.metadata.last_entry_id
    broken = []
    if last < history.acknowledged_to:
        broken.append(f"entry {history.acknowledged_to} was acknowledged, the ledger ends at {last}")
    if last > history.appended_to:
        broken.append(f"the ledger ends at {last}, {history.appended_to} was the last append")
    for number, outcome in history.refused.items():
        if outcome is Outcome.NOT_DONE and number <= last:
            broken.append(f"append {number} was reported as not done, and is there")
    return broken


def _judge_readers(history: History, found: Found) -> list[str]:
    last = found.metadata.last_entry_id
    broken = []
    if history.highest_lac > last:
        broken.append(f"a reader was answered that {history.highest_lac} is confirmed, the end is {last}")
    short = [who for who in sorted(history.finished) if history.tails[who] != last]
    return broken + [f"{who} ended behind {history.tails[who]}, the ledger behind {last}" for who in short]


def _judge_copies(found: Found) -> list[str]:
    """Every entry is on an ack quorum of the bookies that the metadata name for it."""
    metadata = found.metadata
    broken = []
    for entry_id in range(metadata.last_entry_id + 1):
        members = metadata.ensemble_at(entry_id).members
        indexes = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)
        holders = [members[index] for index in indexes if entry_id in found.copies.get(members[index], ())]
        if len(holders) < metadata.ack_quorum:
            broken.append(f"entry {entry_id} is on {holders or 'no bookie'} alone")
    return broken
