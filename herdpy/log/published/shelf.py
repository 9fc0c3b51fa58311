"""Which snapshots of a tablespace a place holds, and what each says of itself.

Above ``place`` and ``manifest``. A snapshot is there once its manifest is: a directory without one is being
written, or was left by a crash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from herdpy.log.lsn import LSN
from herdpy.log.published.errors import DamagedSnapshotError
from herdpy.log.published.manifest import FILE_NAME, PublishedManifest
from herdpy.log.published.place import Place

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
        """Its directory. PublishedSnapshotError when the URL means nothing here."""
        return Place.below(Place(self.url), self.directory)


def directory_name(lsn: LSN) -> str:
    """Of a snapshot at ``lsn``."""
    return f"{lsn.ledger_id:020d}-{lsn.entry_id:020d}"


def lsn_of(name: str) -> LSN | None:
    """Of a snapshot's directory; None for any other name."""
    found = _DIRECTORY.fullmatch(name)
    return None if found is None else LSN(int(found[1]), int(found[2]))


def snapshots(url: str, tablespace: str) -> list[SnapshotRef]:
    """The tablespace's snapshots that are complete, newest first. PublishedSnapshotError."""
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
        PublishedSnapshotError: the place cannot be read.
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
