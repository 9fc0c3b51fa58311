"""Where snapshots are published, which ones a place holds, and which of them stay.

Above ``manifest`` and ``log.place``. A snapshot is there once its manifest is: a directory without one is
being written, or was left by a crash. ``choose``, which is pure, says which snapshots stay; ``prune`` removes
the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from herdpy.log.lsn import LSN
from herdpy.log.place import Place
from herdpy.log.published.manifest import FILE_NAME, DamagedSnapshotError, PublishedManifest

# The snapshots in a place.

_DIRECTORY = re.compile(r"(-?\d{19,20})-(-?\d{19,20})")


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """Where a snapshot is; may be pickled.

    Attributes:
        url: of the place that it was published to.
        tablespace, lsn: which it is.
    """

    url: str
    tablespace: str
    lsn: LSN

    @property
    def directory(self) -> str:
        """Below the place: ``<tablespace>/<ledger>-<entry>``, the numbers with 20 digits."""
        return f"{self.tablespace}/{directory_name(self.lsn)}"

    def __str__(self) -> str:
        return f"{self.url.rstrip('/')}/{self.directory}"

    def place(self) -> Place:
        """Its directory. PlaceError when the URL means nothing here."""
        return Place.below(Place(self.url), self.directory)


def directory_name(lsn: LSN) -> str:
    """Of a snapshot at ``lsn``."""
    return f"{lsn.ledger_id:020d}-{lsn.entry_id:020d}"


def lsn_of(name: str) -> LSN | None:
    """Of a snapshot's directory; None for any other name."""
    found = _DIRECTORY.fullmatch(name)
    return None if found is None else LSN(int(found[1]), int(found[2]))


def snapshots(url: str, tablespace: str) -> list[SnapshotRef]:
    """The tablespace's snapshots that are complete, newest first. PlaceError."""
    place = Place.below(Place(url), tablespace)
    found = [lsn for name in place.names() if (lsn := lsn_of(name)) is not None]
    return [
        SnapshotRef(url, tablespace, lsn)
        for lsn in sorted(found, reverse=True)
        if place.exists(f"{directory_name(lsn)}/{FILE_NAME}")
    ]


def load(ref: SnapshotRef) -> PublishedManifest:
    """What a snapshot says of itself.

    Raises:
        DamagedSnapshotError: it is gone, or is not what was written, or is another's.
        PlaceError: the place cannot be read.
    """
    place = ref.place()
    file = f"{place.url}/{FILE_NAME}"
    try:
        manifest = PublishedManifest.decode(place.read(FILE_NAME))
    except FileNotFoundError:
        raise DamagedSnapshotError(file, "it is not there") from None
    except ValueError as error:
        raise DamagedSnapshotError(file, str(error)) from error
    if (manifest.tablespace, manifest.lsn) != (ref.tablespace, ref.lsn):
        raise DamagedSnapshotError(file, f"it is of tablespace {manifest.tablespace} at {manifest.lsn}")
    return manifest


def newest(
    url: str,
    tablespace: str,
    upto: LSN | None = None,
    time_us: int | None = None,
    log_id: str | None = None,
) -> SnapshotRef | None:
    """The newest snapshot that holds nothing after ``upto``, and nothing committed after ``time_us``.

    Without them: the newest. None when there is no such snapshot. Raises as ``load``.

    Args:
        log_id: only of this log: a tablespace that was dropped and made again may have left others there.
    """
    for ref in snapshots(url, tablespace):
        if upto is not None and ref.lsn > upto:
            continue
        if time_us is None and log_id is None:
            return ref
        manifest = load(ref)
        if log_id in (None, manifest.log_id) and (time_us is None or manifest.time_us <= time_us):
            return ref
    return None


# Which snapshots stay, and which entries of the log are needed beside them.

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
        PlaceError: the place cannot be read.
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
    crash left. Manifests go first, so a snapshot is never found without its files. PlaceError.
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
