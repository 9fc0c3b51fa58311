"""The parts of the BookKeeper benchmark: what is measured, and what is wanted of it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bookkeeper_clients import Bed
from bookkeeper_report import Row, row

SIZES = {100: 1000, 10 * 1024: 200, 1024 * 1024: 16}
"""Entry sizes beside 1 KiB, with how many entries are in flight."""

_PAUSED_S = 2.0
_RUNNING_S = 0.5
_SETTLED_SHARE = 2  # of a run that long, the first part may still grow


@dataclass(frozen=True)
class Scale:
    """How much is done: seconds of a writing run, entries of a tailing one."""

    seconds: float
    tail_entries: int
    memory_s: float


FULL = Scale(seconds=3.0, tail_entries=40_000, memory_s=30.0)
QUICK = Scale(seconds=0.2, tail_entries=200, memory_s=3.0)


def many(bed: Bed, scale: Scale) -> list[Row]:
    """A thousand appends in flight, and what each costs."""
    found = bed.in_turn(
        "append 1000", "write", with_asyncio=True, entry_bytes=1024, in_flight=1000, seconds=scale.seconds
    )
    plain = [answer["cpu_us_per_entry"] for answer in found["asyncio"]]
    return [
        row("append 1 KiB, 1,000 in flight", "/s", "entries_per_s", found, least_ratio=1.2),
        row("client CPU of each, uvloop", "us", "cpu_us_per_entry", found, below=10.0),
        Row("client CPU of each, asyncio's loop", "us", plain, below=10.0),
    ]


def some(bed: Bed, scale: Scale) -> list[Row]:
    """A hundred appends in flight."""
    found = bed.in_turn("append 100", "write", entry_bytes=1024, in_flight=100, seconds=scale.seconds)
    return [row("append 1 KiB, 100 in flight", "/s", "entries_per_s", found)]


def one(bed: Bed, scale: Scale) -> list[Row]:
    """One append at a time, on bookies that flush an idle journal at once."""
    found = bed.in_turn("append 1", "write", entry_bytes=1024, in_flight=1, seconds=scale.seconds)
    return [
        row("append 1 KiB, one in flight, p50", "ms", "p50_ms", found, most_ratio=1.0, below=1.0),
        row("append 1 KiB, one in flight, p99", "ms", "p99_ms", found),
    ]


def one_default(bed: Bed, scale: Scale) -> list[Row]:
    """One append at a time, on bookies configured as BookKeeper does."""
    found = bed.in_turn("append 1 default", "write", entry_bytes=1024, in_flight=1, seconds=scale.seconds)
    return [
        row("the same, BookKeeper's default journal, p50", "ms", "p50_ms", found, most_ratio=1.0),
        row("the same, BookKeeper's default journal, p99", "ms", "p99_ms", found),
    ]


def sizes(bed: Bed, scale: Scale) -> list[Row]:
    """Other sizes of entries."""
    rows = []
    for entry_bytes, in_flight in SIZES.items():
        what = {100: "100 B", 10240: "10 KiB", 1048576: "1 MiB"}[entry_bytes]
        found = bed.in_turn(
            f"append {what}", "write", entry_bytes=entry_bytes, in_flight=in_flight, seconds=scale.seconds
        )
        small = entry_bytes < 1024
        figure, unit = ("entries_per_s", "/s") if small else ("megabytes_per_s", "MB/s")
        rows.append(row(f"append {what}, {in_flight:,} in flight", unit, figure, found))
    return rows


def read(bed: Bed, scale: Scale) -> list[Row]:
    """A whole closed ledger in order."""
    written = bed.python.request(
        "write", **bed.ledger, entry_bytes=1024, in_flight=1000, seconds=scale.seconds
    )
    ledger_id, last = written["ledger_id"], written["last_entry_id"]
    # Java reads a range at a time: of the sizes tried (100 to 2,000) this one served it best.
    found = bed.in_turn(
        "read",
        "read",
        keep=True,
        warm_up=2,
        ledger_id=ledger_id,
        last_entry_id=last,
        batch=500,
        batches_ahead=2,
    )
    bed.python.request("delete", ledger_ids=[ledger_id])
    return [
        row("read a ledger of 1 KiB entries", "/s", "entries_per_s", found, least_ratio=1.0),
        row("client CPU of each", "us", "cpu_us_per_entry", found),
    ]


def tail(bed: Bed, scale: Scale) -> list[Row]:
    """Following a writer: as fast as it goes, and how long an entry takes to be seen."""
    entries = scale.tail_entries
    fast = bed.in_turn(
        "tail fast", "tail", warm_up=1, entry_bytes=1024, entries=entries, interval_us=0, in_flight=1000
    )
    paced = bed.in_turn(
        "tail paced", "tail", entry_bytes=1024, entries=entries // 10, interval_us=1000, in_flight=1000
    )
    return [
        row("append and tail, 1,000 in flight", "/s", "entries_per_s", fast, least_ratio=1.0),
        row("tail, 1,000 entries/s: append to seen, p50", "ms", "p50_ms", paced, most_ratio=1.0),
        row("tail, 1,000 entries/s: append to seen, p99", "ms", "p99_ms", paced),
    ]


def memory(bed: Bed, scale: Scale) -> list[Row]:
    """A writer faster than its bookies: one after the other is stopped most of the time."""
    bed.python.send("memory", **bed.ledger, entry_bytes=1024, seconds=scale.memory_s)
    until, turn = time.monotonic() + scale.memory_s - _PAUSED_S - _RUNNING_S, 0
    while time.monotonic() < until:
        bookie = bed.cluster.bookies[turn % len(bed.cluster.bookies)]
        bookie.pause()
        time.sleep(min(_PAUSED_S, scale.memory_s / 4))
        bookie.resume()
        time.sleep(_RUNNING_S)
        turn += 1
    answer = bed.python.answer()
    bed.python.request("delete", ledger_ids=[answer["ledger_id"]])
    bed.runs["memory"] = {"python": [answer]}
    resident = answer["resident_mib"]
    first = max(resident[: len(resident) // _SETTLED_SHARE])
    bound = answer["bound_mib"] + resident[0]
    return [
        Row("memory of a writer kept waiting, most", "MiB", [max(resident)], below=bound),
        Row("its growth in the second half of the run", "MiB", [max(resident) - first], below=10.0),
    ]


PARTS = {"many": many, "some": some, "one": one, "sizes": sizes, "read": read, "tail": tail, "memory": memory}
"""Parts that run on bookies with journalFlushWhenQueueEmpty."""

DEFAULT_JOURNAL = {"default": one_default}
"""Parts that run on bookies with BookKeeper's own settings of the journal."""
