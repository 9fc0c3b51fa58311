"""Which published snapshots stay, and which entries of the log are needed beside them.

Above ``shelf``. ``choose`` is pure; ``prune`` asks it about what is there, and removes the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from herdpy.log.lsn import LSN
from herdpy.log.published.errors import DamagedSnapshotError
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
    """A snapshot, the moment that nothing in it is later than, and its log (see ``PublishedManifest``)."""

    ref: SnapshotRef
    time_us: int
    log_id: str = ""


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


def dated(
    url: str, tablespace: str, log_id: str | None = None
) -> tuple[list[Dated], list[DamagedSnapshotError]]:
    """All snapshots that are there, newest first; and what is wrong with those that cannot be used.

    Args:
        log_id: only those of this log. A tablespace that was dropped and made again has another.

    Raises:
        PublishedSnapshotError: the place cannot be read.
    """
    found: list[Dated] = []
    damaged: list[DamagedSnapshotError] = []
    for ref in snapshots(url, tablespace):
        try:
            manifest = load(ref)
        except DamagedSnapshotError as error:
            damaged.append(error)
            continue
        if log_id in (None, manifest.log_id):
            found.append(Dated(ref, manifest.time_us, manifest.log_id))
    return found, damaged


def remove_others(
    url: str, tablespace: str, staying: Collection[LSN], log_id: str | None = None
) -> list[LSN]:
    """Remove what is not among ``staying`` and not behind the newest of them; returns what went.

    Snapshots of a log other than ``log_id``, where that is given, are somebody else's and stay.

    For whoever publishes: what another is writing just then, before the newest, would be taken for what a
    crash left. Manifests go first, so a snapshot is never found without its files. PublishedSnapshotError.
    """
    if not staying:
        return []
    newest = max(staying)
    place = Place.below(Place(url), tablespace)
    there = [lsn for name in place.names() if (lsn := lsn_of(name)) is not None]
    gone: list[LSN] = []
    for lsn in sorted(lsn for lsn in there if lsn < newest and lsn not in staying):
        if log_id is not None and _log_id(SnapshotRef(url, tablespace, lsn)) not in (None, log_id):
            continue
        gone.append(lsn)
        name = directory_name(lsn)
        place.delete(f"{name}/{FILE_NAME}")
        Place.below(place, name).clear()
    return gone


def _log_id(ref: SnapshotRef) -> str | None:
    """Whose a snapshot is; None of one that is not whole, or damaged."""
    try:
        return load(ref).log_id
    except DamagedSnapshotError:
        return None


def prune(
    url: str, tablespace: str, retention: Retention, *, leased: Collection[LSN] = (), now_us: int
) -> tuple[list[SnapshotRef], LSN | None]:
    """``choose`` among what is there, and remove the others; returns what ``choose`` does.

    Damaged snapshots go, too. Raises as ``dated`` and ``remove_others``.
    """
    found, _damaged = dated(url, tablespace)
    kept, floor = choose(found, retention, leased=leased, now_us=now_us)
    remove_others(url, tablespace, [ref.lsn for ref in kept])
    return kept, floor
