"""Where snapshots are published, which ones a place holds, and which of them stay.

Above ``manifest``. A :class:`Place` is a directory or an object store by any URL that fsspec knows (``/dir``,
``s3://bucket/prefix``, ``memory://name``); credentials come from the environment or fsspec's configuration.
A snapshot is there once its manifest is: a directory without one is being written, or was left by a crash.
``choose``, which is pure, says which snapshots stay; ``prune`` removes the others.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from herdpy.log.files import sync_directory, sync_path
from herdpy.log.lsn import LSN
from herdpy.log.published.manifest import (
    FILE_NAME,
    DamagedSnapshotError,
    PublishedManifest,
    PublishedSnapshotError,
)


class Place:
    """A directory behind a URL. Its methods block and raise PublishedSnapshotError, but for what they say."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise PublishedSnapshotError(
                "published snapshots need the package fsspec: pip install 'herdpy[spark]' or 'herdpy[server]'"
            ) from error
        self.url = url.rstrip("/") or url
        try:
            self._fs: Any
            self._fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            raise PublishedSnapshotError(f"{url} cannot be opened: {error}") from error
        self._root = str(root).rstrip("/")
        self._local = "file" in _protocols(self._fs)

    @classmethod
    def below(cls, place: Place, name: str) -> Place:
        """A directory in it."""
        inner = cls.__new__(cls)
        inner.url, inner._fs = f"{place.url}/{name}", place._fs
        inner._root, inner._local = f"{place._root}/{name}", place._local
        return inner

    def path(self, name: str) -> str:
        """As its filesystem names a file in it."""
        return f"{self._root}/{name}" if name else self._root

    def names(self) -> list[str]:
        """Of what is in it, in no order; nothing when it is not there."""
        with self._translated("listed"):
            self._fs.invalidate_cache()
            try:
                found = self._fs.ls(self._root, detail=False)
            except FileNotFoundError:
                return []
            return [str(path).rstrip("/").rpartition("/")[2] for path in found]

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        with self._translated("listed"):
            self._fs.invalidate_cache()
            return bool(self._fs.exists(self.path(name)))

    def size(self, name: str) -> int | None:
        """A file's, in bytes; None when it is not there."""
        with self._translated("listed"):
            self._fs.invalidate_cache()
            try:
                return int(self._fs.size(self.path(name)))
            except FileNotFoundError:
                return None

    def read(self, name: str) -> bytes:
        """All of a file. FileNotFoundError when it is not there."""
        with self._translated(f"read ({name})"):
            data: bytes = self._fs.cat_file(self.path(name))
            return data

    def create(self, name: str) -> Any:
        """A new file to write to, with the directories on the way to it."""
        with self._translated(f"written ({name})"):
            self._fs.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            return self._fs.open(self.path(name), "wb")

    def settle(self, name: str) -> None:
        """Bring a closed file of a local directory to the disk; stores of objects have done so."""
        if self._local:
            with self._translated(f"written ({name})"):
                sync_path(self.path(name))

    def put(self, name: str, data: bytes) -> None:
        """A whole file at once: who looks finds all of it or nothing."""
        with self._translated(f"written ({name})"):
            if not self._local:
                self._fs.makedirs(self._root, exist_ok=True)
                self._fs.pipe_file(self.path(name), data)
                return
            os.makedirs(self._root, exist_ok=True)
            hidden = self.path(f".{name}.new")
            with open(hidden, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(hidden, self.path(name))
            sync_directory(self._root)
            sync_directory(os.path.dirname(self._root))

    def delete(self, name: str) -> None:
        """Remove a file; nothing when it is not there."""
        with self._translated("cleared"), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self.path(name))

    def clear(self) -> None:
        """Remove it with all that is in it; nothing when it is not there."""
        with self._translated("cleared"):
            self._fs.invalidate_cache()
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm(self._root, recursive=True)

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:
            # Each filesystem has exceptions of its own: a store's client raises what it likes.
            raise PublishedSnapshotError(f"{self.url} cannot be {what}: {error}") from error


def _protocols(fs: Any) -> tuple[str, ...]:
    known = fs.protocol
    return (known,) if isinstance(known, str) else tuple(known)


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
