"""A directory or an object store that many processes write to, by any URL that fsspec knows.

Below published snapshots and backups. ``/dir``, ``file:///dir``, ``s3://bucket/prefix``, ``memory://name``;
credentials come from the environment or from fsspec's configuration. Needs fsspec, which is imported when
a place is opened.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import Any

from herdpy.distribution import install_line
from herdpy.log.errors import LogError
from herdpy.log.files import sync_directory, sync_path
from herdpy.machine import sync_all


class PlaceError(LogError):
    """A place that cannot be listed, read or written; the message names it."""


class Place:
    """A directory behind a URL. Its methods block and raise PlaceError, but for what they say."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise PlaceError(
                f"{without_userinfo(url)} needs the package fsspec: {install_line('backup')}"
            ) from error
        self.url = url.rstrip("/") or url
        try:
            self._fs: Any
            self._fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            raise PlaceError(f"{without_userinfo(url)} cannot be opened: {error}") from error
        self._root = str(root).rstrip("/")
        self._local = "file" in _protocols(self._fs)
        self._settled: set[str] = set()

    @classmethod
    def below(cls, place: Place, name: str) -> Place:
        """A directory in it."""
        inner = cls.__new__(cls)
        inner.url, inner._fs = f"{place.url}/{name}", place._fs
        inner._root, inner._local = f"{place._root}/{name}", place._local
        inner._settled = set()
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

    def sizes(self, directory: str = "") -> dict[str, int]:
        """Bytes of every file in a directory and below, by name in the place; none when it is not there."""
        with self._translated("listed"):
            self._fs.invalidate_cache()
            try:
                found = self._fs.find(self.path(directory), detail=True)
            except FileNotFoundError:
                return {}
            start = len(self._root) + 1
            inside = {path[start:]: int(one["size"]) for path, one in found.items() if one["type"] == "file"}
            return {name: size for name, size in inside.items() if not _is_unfinished(name)}

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
            directory = os.path.dirname(self.path(name))
            if not self._local:
                self._fs.makedirs(directory, exist_ok=True)
                self._fs.pipe_file(self.path(name), data)
                return
            hidden = self._written(directory, name, data)
            os.replace(hidden, self.path(name))
            self._settle_names(directory)

    def put_new(self, name: str, data: bytes) -> bool:
        """As :meth:`put`, if no file has that name; False when one has.

        A directory, and a store that creates on a condition, leave no gap between the look and the write; on
        other stores two writers at once can both be answered True.
        """
        with self._translated(f"written ({name})"):
            directory = os.path.dirname(self.path(name))
            if self._local:
                hidden = self._written(directory, name, data)
                try:
                    os.link(hidden, self.path(name))
                except FileExistsError:
                    return False
                finally:
                    os.unlink(hidden)
                self._settle_names(directory)
                return True
            self._fs.makedirs(directory, exist_ok=True)
            return self._create(name, data)

    def _create(self, name: str, data: bytes) -> bool:
        self._fs.invalidate_cache()
        if self._fs.exists(self.path(name)):
            return False
        try:
            self._fs.pipe_file(self.path(name), data, mode="create")
        except FileExistsError:
            # A client repeats a request whose answer was lost, and meets its own file then.
            return bool(self._fs.cat_file(self.path(name)) == data)
        except (NotImplementedError, TypeError, ValueError):
            self._fs.pipe_file(self.path(name), data)
        return True

    def _written(self, directory: str, name: str, data: bytes) -> str:
        """A file of a local directory under a name that nobody else takes, on the disk."""
        if not os.path.isdir(directory):
            self._settled.discard(directory)
            os.makedirs(directory, exist_ok=True)
        hidden = os.path.join(directory, f".{os.path.basename(name)}.{secrets.token_hex(4)}.new")
        with open(hidden, "wb") as file:
            file.write(data)
            file.flush()
            sync_all(file.fileno())
        return hidden

    def _settle_names(self, directory: str) -> None:
        """Bring the names of a local directory to the disk, and its own, up to the place's.

        Those above it are there for good once that was done: each sync holds up all writers of that disk.
        """
        sync_directory(directory)
        above = directory
        while directory not in self._settled and len(above) >= len(self._root):
            above = os.path.dirname(above)
            sync_directory(above)
        self._settled.add(directory)

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
            raise PlaceError(f"{without_userinfo(self.url)} cannot be {what}: {error}") from error


def _is_unfinished(name: str) -> bool:
    """Whether a file is what a writer to a local directory is about to rename, or has left."""
    base = os.path.basename(name)
    return base.startswith(".") and base.endswith(".new")


def without_userinfo(url: str) -> str:
    """A URL as it may be shown: without a user and a password."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def _protocols(fs: Any) -> tuple[str, ...]:
    known = fs.protocol
    return (known,) if isinstance(known, str) else tuple(known)
