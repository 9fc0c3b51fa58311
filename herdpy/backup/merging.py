"""Many small segments of a ledger become few large ones.

Above ``archive``. The archive is written to every few seconds, so a ledger that was open for an hour has
hundreds of segments. Those of one that is closed are read, joined, and written as larger segments; only then
the small ones are removed, each because one that has all of it and more is there. So two that merge the same
ledger at once, in whatever ways, leave every entry in some segment. A reader whose file is gone lists again
(``read_entries``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from herdpy.backup.archive import LogSegment, entries_directory, segments
from herdpy.backup.errors import MissingPartError
from herdpy.backup.repository import Repository
from herdpy.log.entry import HEADER_BYTES, decode_header

MERGED_BYTES: Final = 32 << 20
"""A merged segment has so many bytes of entries at most."""
FEW: Final = 4
"""A ledger that has no more segments is left as it is."""
_LARGE_BYTES = 512 << 10


@dataclass(frozen=True, slots=True)
class MergedSegments:
    """What came of a ledger's segments.

    Attributes:
        written, removed: how many files.
        stored_bytes: of those that were written.
    """

    written: int = 0
    removed: int = 0
    stored_bytes: int = 0


def is_to_be_merged(found: Iterable[LogSegment]) -> bool:
    """Whether the segments of one ledger are many and small."""
    sizes = [one.size_bytes for one in found]
    return len(sizes) > FEW and sum(sizes) / len(sizes) < _LARGE_BYTES


def merge_ledger(repository: Repository, log_id: str, ledger_id: int) -> MergedSegments:
    """Merge the segments of a ledger that is closed and archived to its end.

    Memory: a merged segment and one more. Broken off at any point, it leaves nothing that is missing.

    Raises:
        DamagedPartError: a segment is not what was written; nothing of it is removed.
        PlaceError: the repository cannot be read or written.
    """
    directory = entries_directory(log_id)
    found = [one for one in segments(repository, log_id) if one.ledger_id == ledger_id]
    written = stored = 0
    large: list[LogSegment] = list(found)
    try:
        for segment, contents in _joined(repository, directory, _leading(found)):
            stored += repository.write(f"{directory}/{segment.name}", contents)
            written += 1
            large.append(segment)
    except MissingPartError:
        return MergedSegments(
            written, 0, stored
        )  # another merges the same ledger: it does what is left to do
    covered = [one for one in found if any(_is_within(one, other) for other in large)]
    for one in covered:
        repository.delete(f"{directory}/{one.name}")
    return MergedSegments(written, len(covered), stored)


def _is_within(one: LogSegment, other: LogSegment) -> bool:
    """Whether all of a segment, and more, is in another one."""
    return other.first <= one.first <= one.last <= other.last and one.name != other.name


def _leading(found: list[LogSegment]) -> list[list[LogSegment]]:
    """The fewest segments that have all entries, in runs without a gap."""
    runs: list[list[LogSegment]] = []
    left = sorted(found, key=lambda one: (one.first, -one.last))
    following = -1
    while left:
        able = [one for one in left if one.first <= following]
        if able:
            best = max(able, key=lambda one: one.last)
            if best.last >= following:
                runs[-1].append(best)
                following = best.last + 1
            left = [one for one in left if one.last >= following]
            continue
        best = max((one for one in left if one.first == left[0].first), key=lambda one: one.last)
        runs.append([best])
        following = best.last + 1
        left = [one for one in left if one.last >= following]
    return runs


def _joined(
    repository: Repository, directory: str, runs: list[list[LogSegment]]
) -> Iterator[tuple[LogSegment, bytearray]]:
    """Larger segments, made of neighbours; those that have no neighbour to be joined with are left out."""
    for run in runs:
        held: list[LogSegment] = []
        buffer = bytearray()
        for segment in run:
            contents = _after(repository.read(f"{directory}/{segment.name}"), held[-1].last if held else -1)
            if held and len(buffer) + len(contents) > MERGED_BYTES:
                if len(held) > 1:
                    yield _one_of(held), buffer
                contents = repository.read(f"{directory}/{segment.name}")
                held, buffer = [], bytearray()
            held.append(segment)
            buffer += contents
        if len(held) > 1:
            yield _one_of(held), buffer


def _one_of(held: list[LogSegment]) -> LogSegment:
    return LogSegment(held[0].ledger_id, held[0].first, held[-1].last)


def _after(contents: bytes, last: int) -> bytes:
    """Without the entries up to ``last``."""
    at = 0
    while at < len(contents):
        header = decode_header(contents, at)
        if header.lsn.entry_id > last:
            break
        at += HEADER_BYTES + header.body_bytes
    return contents[at:]
