"""Which published snapshots stay, and which entries of the log are needed beside them.

Above ``shelf``. ``choose`` is pure; ``prune`` removes the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from herdpy.log.lsn import LSN
from herdpy.log.published.manifest import FILE_NAME
from herdpy.log.published.place import Place
from herdpy.log.published.shelf import SnapshotRef, directory_name, load, lsn_of, snapshots

_STEPS = 8
"""A history is kept in about so many steps: more cost storage, fewer keep more of the log than was asked."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What is to stay.

    Attributes:
        keep: so many of the newest snapshots.
        history_s: moments of so many seconds ago stay readable: the newest snapshot that old stays, about one
            for each eighth of that time since, and the log's entries after it. 0: the newest snapshot alone.
    """

    keep: int = 2
    history_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Dated:
    """A snapshot and the moment up to which it has everything (``Manifest.time_us``)."""

    ref: SnapshotRef
    time_us: int


def choose(
    found: Sequence[Dated], retention: Retention, *, leased: Collection[LSN] = (), now_us: int
) -> tuple[list[SnapshotRef], LSN | None]:
    """Which snapshots stay, newest first, and after which LSN the log must be kept (None: there is none).

    Args:
        found: all that are there, newest first.
        leased: LSNs that readers hold: the newest snapshot at or before each stays, for they began from it.
    """
    if not found:
        return [], None
    kept = {one.ref.lsn for one in found[: max(retention.keep, 1)]}
    base = found[0]
    if retention.history_s > 0:
        old_us = now_us - int(retention.history_s * 1e6)
        base = next((one for one in found if one.time_us <= old_us), found[-1])
        kept.add(base.ref.lsn)
        last_us, step_us = base.time_us, int(retention.history_s * 1e6) // _STEPS
        for one in reversed(found):
            if one.ref.lsn > base.ref.lsn and (one.ref.lsn in kept or one.time_us >= last_us + step_us):
                kept.add(one.ref.lsn)
                last_us = one.time_us
    for lsn in leased:
        at = next((one for one in found if one.ref.lsn <= lsn), None)
        if at is not None:
            kept.add(at.ref.lsn)
    return [one.ref for one in found if one.ref.lsn in kept], base.ref.lsn


def prune(
    url: str, tablespace: str, retention: Retention, *, leased: Collection[LSN] = (), now_us: int
) -> tuple[list[SnapshotRef], LSN | None]:
    """Remove the snapshots that need not stay, and what crashes left of others; returns what ``choose`` does.

    For whoever publishes: what another is writing just then, behind the newest, would be taken for a remnant.
    Its manifest goes first, so a snapshot is never found without its files.

    Raises:
        DamagedSnapshotError, PublishedSnapshotError: as ``snapshots`` and ``load``.
    """
    found = [Dated(ref, load(ref).time_us) for ref in snapshots(url, tablespace)]
    kept, floor = choose(found, retention, leased=leased, now_us=now_us)
    place = Place.below(Place(url), tablespace)
    staying = {directory_name(ref.lsn) for ref in kept}
    for name in place.names():
        lsn = lsn_of(name)
        if lsn is None or name in staying or not found or lsn > found[0].ref.lsn:
            continue
        place.delete(f"{name}/{FILE_NAME}")
        Place.below(place, name).clear()
    return kept, floor
