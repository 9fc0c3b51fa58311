"""Where snapshots are published: a directory or an object store, by fsspec.

Above ``errors``. Everything else of the package reaches files through a :class:`Place`. A URL is whatever
fsspec knows (``/dir``, ``file:///dir``, ``s3://bucket/prefix``, ``memory://name``); credentials come from
where its filesystem looks for them, which is the environment or fsspec's configuration.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from herdpy.log.published.errors import PublishedSnapshotError


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
                _sync(self.path(name))

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
            _sync(self._root)
            _sync(os.path.dirname(self._root))

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


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
