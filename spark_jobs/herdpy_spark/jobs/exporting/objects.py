"""Places of exports that fsspec reaches: s3://, gs://, abfs:// and the like, without Spark or Hadoop.

Below ``generations``. Credentials are fsspec's: its configuration (``FSSPEC_S3_...`` in the environment, or
a file in ``FSSPEC_CONFIG_DIR``), or the store's own environment. The driver's configuration goes with the
tasks, within their code, and stands in no log. An object is there whole or not at all. A manifest is created
on the condition that none is there (S3: ``If-None-Match: *``); a store is tried for that before it is relied
on.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from herdpy.distribution import requirement
from herdpy_spark.jobs.job import JobError

SCHEMES = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "az", "memory"})
"""Schemes of URLs that fsspec reaches; all others but local paths are Hadoop's."""
_NEEDS = {
    "s3": requirement("lake"),
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
}


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """How any process reaches a directory by fsspec.

    Attributes:
        url: a URL, or an absolute path.
        options: fsspec's for the URL's protocol. They may hold a password, and are never shown.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str) -> StoreAddress:
        """With this process's configuration of fsspec."""
        from fsspec.config import conf

        return cls(url.rstrip("/"), dict(conf.get(urlsplit(url).scheme, {})))

    def opened(self) -> tuple[Any, str]:
        """The file system, and the directory's path in it. JobError: its package is missing, or refuses."""
        try:
            import fsspec

            # Other processes write there, too: nothing that was listed is kept.
            files, root = fsspec.url_to_fs(self.url, **({"use_listings_cache": False} | self.options))
        except ImportError as error:
            package = _NEEDS.get(urlsplit(self.url).scheme, "fsspec")
            raise JobError(f"{self.url} needs a package: {error}", hint=f'pip install "{package}"') from error
        except (ValueError, OSError) as error:
            raise JobError(f"{self.url} cannot be opened: {error}") from error
        return files, str(root).rstrip("/")


class ObjectPlace:
    """``ExportPlace``: a directory in a store of objects.

    Raises:
        JobError: the store's package is not installed, or refuses the URL.
    """

    spark_reads = False

    def __init__(self, url: str) -> None:
        address = StoreAddress.of(url)
        self.address: StoreAddress | None = address
        self.url = address.url
        self._files, self._root = address.opened()
        self._is_exclusive: bool | None = None

    @property
    def is_exclusive(self) -> bool:
        """Whether the store creates an object only if there is none; it is tried once."""
        if self._is_exclusive is None:
            self._is_exclusive = self._tried()
        return self._is_exclusive

    def _tried(self) -> bool:
        """Create an object twice: a store that knows no condition refuses it, or lets both pass."""
        path = self._path(f"_herdpy/.probe-{uuid.uuid4().hex}")
        self._files.makedirs(self._path("_herdpy"), exist_ok=True)
        try:
            self._files.pipe_file(path, b"1", mode="create")
            self._files.pipe_file(path, b"2", mode="create")
        except FileExistsError:
            return True
        except (NotImplementedError, TypeError, ValueError, OSError):
            self._files.pipe_file(path, b"3")  # whatever keeps us from writing at all is raised
        finally:
            if self._files.exists(path):
                self._files.rm_file(path)
        return False

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def names(self, directory: str) -> list[str]:
        """Sorted names."""
        self._files.invalidate_cache()
        try:
            found = self._files.ls(self._path(directory), detail=False)
        except FileNotFoundError:
            return []
        own = self._path(directory).strip("/")
        inside = (path for path in found if path.strip("/") != own)  # a store may keep a mark of a directory
        return sorted(path.rstrip("/").rpartition("/")[2] for path in inside)

    def read(self, name: str) -> bytes:
        """The whole object."""
        content: bytes = self._files.cat_file(self._path(name))
        return content

    def size(self, name: str) -> int | None:
        """Its bytes."""
        self._files.invalidate_cache()
        try:
            return int(self._files.info(self._path(name))["size"])
        except FileNotFoundError:
            return None

    def sizes(self, directory: str) -> dict[str, int]:
        """Every object below."""
        self._files.invalidate_cache()
        found = self._files.find(self._path(directory), detail=True)
        start = len(self._path("")) + 1
        return {path[start:]: int(one["size"]) for path, one in found.items()}

    def create(self, name: str, content: bytes) -> bool:
        """By a condition, where the store has them; else it is looked for first, and looked at after.

        An answer that was lost makes the client repeat the request, which then meets its own object: what is
        there is compared.
        """
        path = self._path(name)
        if self.is_exclusive:
            try:
                self._files.pipe_file(path, content, mode="create")
            except FileExistsError:
                return self.read(name) == content
            return True
        if self.size(name) is not None:
            return False
        self._files.pipe_file(path, content)
        return self.read(name) == content

    def remove(self, name: str) -> None:
        """Gone, or never there."""
        self._files.invalidate_cache()
        try:
            self._files.rm(self._path(name), recursive=True)
        except FileNotFoundError:
            return

    def join(self, name: str) -> str:
        """The URL."""
        return f"{self.url}/{name}" if name else self.url
