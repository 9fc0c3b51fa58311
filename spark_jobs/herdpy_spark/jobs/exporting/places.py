"""Where an export lies: a directory that small files are written to so that only one writer wins.

Data goes there through Spark, which knows Hadoop's file systems (HDFS, S3A, ...). The few small files that
make it an export must go the same way, with the same credentials; so ``HadoopPlace`` asks Spark's JVM. On a
local path no JVM is needed: programs that only read a manifest do not start one.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class ExportPlace(Protocol):
    """A directory. Names are relative to it, with slashes."""

    url: str

    def names(self, directory: str) -> list[str]:
        """What stands directly in a directory, sorted; nothing when there is none."""

    def read(self, name: str) -> bytes:
        """The whole file; FileNotFoundError when there is none."""

    def size(self, name: str) -> int | None:
        """Bytes of the file; None when there is none."""

    def create(self, name: str, content: bytes) -> bool:
        """Make the file, whole or not at all; False, and nothing is changed, when there is one already."""

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all in it, if it is there."""

    def join(self, name: str) -> str:
        """What Spark calls the file."""


def is_local(url: str) -> bool:
    """Whether a path or URL names local files."""
    return not _SCHEME.match(url) or urlsplit(url).scheme == "file"


def local_path(url: str) -> Path:
    """The path of a local URL, or the path itself, absolute."""
    return Path(unquote(urlsplit(url).path) if _SCHEME.match(url) else url).absolute()


def for_spark(url: str) -> str:
    """A path or URL as Spark takes it: the JVM's working directory may be another one than this process's."""
    return url if not is_local(url) else str(local_path(url))


def place(url: str, spark: SparkSession | None = None) -> ExportPlace:
    """The place of a path or URL. ValueError where it is not local and there is no session to reach it."""
    if is_local(url):
        return LocalPlace(local_path(url))
    if spark is None:
        raise ValueError(f"{url} is not a local path: a Spark session is needed to reach it")
    return HadoopPlace(url, spark)


class LocalPlace:
    """A directory of this machine (or a mounted one)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = str(path)

    def names(self, directory: str) -> list[str]:
        """Sorted names."""
        try:
            return sorted(os.listdir(self._path / directory))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """The whole file."""
        return (self._path / name).read_bytes()

    def size(self, name: str) -> int | None:
        """Its bytes."""
        try:
            return (self._path / name).stat().st_size
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        """A synced temporary file gets the name by a link, which fails where the name is taken."""
        final = self._path / name
        final.parent.mkdir(parents=True, exist_ok=True)
        scratch = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
        try:
            with scratch.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(scratch, final)
            except FileExistsError:
                return False
        finally:
            scratch.unlink(missing_ok=True)
        _sync_directory(final.parent)
        return True

    def remove(self, name: str) -> None:
        """Gone, or never there."""
        path = self._path / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def join(self, name: str) -> str:
        """A URL: Spark must not take the path for one of its default file system."""
        return (self._path / name).as_uri()


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class HadoopPlace:
    """A directory that Hadoop's file systems know, reached through the session's JVM."""

    def __init__(self, url: str, spark: SparkSession) -> None:
        self.url = url.rstrip("/")
        jvm: Any = spark.sparkContext._jvm
        jsc: Any = spark.sparkContext._jsc
        self._jvm = jvm
        root = jvm.org.apache.hadoop.fs.Path(self.url)
        self._files = root.getFileSystem(jsc.hadoopConfiguration())
        self._context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            root.toUri(), jsc.hadoopConfiguration()
        )

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.join(name))

    def names(self, directory: str) -> list[str]:
        """Sorted names."""
        path = self._at(directory)
        if not self._files.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(path))

    def read(self, name: str) -> bytes:
        """The whole file."""
        path = self._at(name)
        if not self._files.exists(path):
            raise FileNotFoundError(self.join(name))
        stream = self._files.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def size(self, name: str) -> int | None:
        """Its bytes."""
        path = self._at(name)
        return int(self._files.getFileStatus(path).getLen()) if self._files.exists(path) else None

    def create(self, name: str, content: bytes) -> bool:
        """A temporary file is renamed without the leave to overwrite.

        On HDFS and local disks that is atomic. Object stores do not rename atomically: there, of two exports
        that publish the same generation within moments of each other, the later one can win over the other.
        """
        path = self._at(name)
        if self._files.exists(path):
            return False
        scratch = self._at(f"{name.rpartition('/')[0]}/.{uuid.uuid4().hex}")
        stream = self._files.create(scratch, False)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        none: Any = self._jvm.org.apache.hadoop.fs.Options.Rename.NONE
        options: Any = self._jvm.java.lang.reflect.Array.newInstance(none.getClass(), 1)
        options[0] = none
        try:
            self._context.rename(scratch, path, options)
        except Exception as error:
            if "FileAlreadyExistsException" not in str(error):
                raise
            return False
        finally:
            self._files.delete(scratch, False)
        return True

    def remove(self, name: str) -> None:
        """Gone, or never there."""
        self._files.delete(self._at(name), True)

    def join(self, name: str) -> str:
        """The URL."""
        return f"{self.url}/{name}" if name else self.url
