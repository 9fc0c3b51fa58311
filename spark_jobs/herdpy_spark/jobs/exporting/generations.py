"""The generations of one export: found, published once, and removed; and where they lie.

    <export>/_herdpy/manifest-00000007.json     the seventh generation
    <export>/_data/00000007-<run>/part-...      files that the seventh generation added

A generation exists from the moment its manifest does: the table at one position, and every file that holds
its rows, with a checksum of the document (FORMAT in docs/spark.md). A manifest's number is taken once, so
of two runs one publishes. Files that no manifest names are swept by the next run that publishes; Spark
passes over both directories' names. Local paths and stores of objects (``objects``) are reached without a
JVM; Hadoop's file systems through the session's (``HadoopPlace``), with the same credentials as data.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from herdpy.log.files import sync_directory
from herdpy.log.lsn import LSN
from herdpy.machine import sync_all
from herdpy_spark.jobs.exporting.objects import SCHEMES, ObjectPlace, StoreAddress
from herdpy_spark.jobs.job import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from herdpy_spark.jobs.job import JobRun

_RENAMING = frozenset({"hdfs", "viewfs", "file"})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class ExportPlace(Protocol):
    """A directory. Names are relative to it, with slashes."""

    url: str
    spark_reads: bool  # Spark's own sources read and write there
    address: StoreAddress | None  # how tasks reach it by fsspec; None: they do not

    @property
    def is_exclusive(self) -> bool:
        """Whether ``create`` holds against whoever creates the same file at the same moment."""

    def names(self, directory: str) -> list[str]:
        """What stands directly in a directory, sorted; nothing when there is none."""

    def read(self, name: str) -> bytes:
        """The whole file; FileNotFoundError when there is none."""

    def size(self, name: str) -> int | None:
        """Bytes of the file; None when there is none."""

    def sizes(self, directory: str) -> dict[str, int]:
        """Every file below a directory, however deep: its name, and bytes."""

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


def needs_spark(url: str) -> bool:
    """Whether only Hadoop's file systems reach it."""
    return not is_local(url) and urlsplit(url).scheme not in SCHEMES


def place(url: str, spark: SparkSession | None = None) -> ExportPlace:
    """The place of a path or URL: local, fsspec's or Hadoop's.

    Raises:
        ValueError: it is Hadoop's, and there is no session to reach it.
        JobError: fsspec cannot open it.
    """
    if is_local(url):
        return LocalPlace(local_path(url))
    if not needs_spark(url):
        return ObjectPlace(url)
    return spark_place(url, spark)


def spark_place(url: str, spark: SparkSession | None) -> ExportPlace:
    """The place of a path or URL that Spark's own sources reach; as ``place``."""
    if is_local(url):
        return LocalPlace(local_path(url))
    if spark is None:
        raise ValueError(f"{url} is not a local path: a Spark session is needed to reach it")
    return HadoopPlace(url, spark)


class LocalPlace:
    """A directory of this machine (or a mounted one)."""

    spark_reads = True
    is_exclusive = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = str(path)
        self.address: StoreAddress | None = StoreAddress(str(path))

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

    def sizes(self, directory: str) -> dict[str, int]:
        """Every file below."""
        found = {}
        for inside, _, names in os.walk(self._path / directory):
            for name in names:
                path = Path(inside, name)
                found[path.relative_to(self._path).as_posix()] = path.stat().st_size
        return found

    def create(self, name: str, content: bytes) -> bool:
        """A synced temporary file gets the name by a link, which fails where the name is taken."""
        final = self._path / name
        final.parent.mkdir(parents=True, exist_ok=True)
        scratch = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
        try:
            with scratch.open("xb") as file:
                file.write(content)
                file.flush()
                sync_all(file.fileno())
            try:
                os.link(scratch, final)
            except FileExistsError:
                return False
        finally:
            scratch.unlink(missing_ok=True)
        sync_directory(final.parent)
        return True

    def remove(self, name: str) -> None:
        """Gone, or never there."""
        path = self._path / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def join(self, name: str) -> str:
        """A URL: Spark must not take the path for one of its default file system. It decodes no %20."""
        return f"file://{(self._path / name).as_posix()}"


class HadoopPlace:
    """A directory that Hadoop's file systems know, reached through the session's JVM."""

    spark_reads = True
    address: StoreAddress | None = None

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

    @property
    def is_exclusive(self) -> bool:
        """HDFS renames at once; stores of objects copy, and replace what came in between."""
        return urlsplit(self.url).scheme in _RENAMING

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

    def sizes(self, directory: str) -> dict[str, int]:
        """Every file below."""
        path = self._at(directory)
        if not self._files.exists(path):
            return {}
        found = {}
        start = len(self._at("").toUri().getPath()) + 1
        listed = self._files.listFiles(path, True)
        while listed.hasNext():
            status = listed.next()
            found[status.getPath().toUri().getPath()[start:]] = int(status.getLen())
        return found

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


FORMAT, PARTITIONED_FORMAT = 1, 2
_MASK = 2**64 - 1


class DamagedManifestError(Exception):
    """The document is no manifest of this format, or not the one that was written."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Rows, whatever their order: how many, and the sum (modulo 2**64) and the exclusive or of their
    hashes."""

    rows: int = 0
    sum: int = 0
    xor: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """That of the rows of both."""
        return Fingerprint(
            self.rows + other.rows, (self.sum + other.sum) & _MASK, (self.xor ^ other.xor) & _MASK
        )

    def __sub__(self, other: Fingerprint) -> Fingerprint:
        """That of the rows without the other ones, which are among them."""
        return Fingerprint(
            self.rows - other.rows, (self.sum - other.sum) & _MASK, (self.xor ^ other.xor) & _MASK
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows.

    Attributes:
        path: relative to the export's directory.
        size_bytes: of the file.
        fingerprint: of its rows.
    """

    path: str
    size_bytes: int
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """One generation.

    Attributes:
        generation: 1, 2, ...
        kind: "full", or "incremental": made of the generation before and the changes since.
        table: what was exported, or the query's text.
        lsn: the position at which the table was as it is here.
        since: the position of the generation that an incremental one was made of.
        log_id: of the table's log: positions of another log mean nothing here.
        file_format: "parquet" or "csv".
        schema: Spark's JSON of the columns.
        key: columns of the primary key; none where there is none.
        selection: the options that chose columns and rows; merging goes on with the same.
        files: all that hold rows.
        run_id: whoever asks again with this id has it already.
        partition_by: columns by whose values files lie in directories; a manifest that has some is of
            ``PARTITIONED_FORMAT``, so that a program that knows none does not merge into it.
        created: UTC, ISO 8601.
        definition: of the table at ``lsn``, the catalog's JSON; empty where it is not known, or of a query.
    """

    generation: int
    kind: str
    table: str
    lsn: LSN
    file_format: str
    schema: dict[str, Any]
    key: tuple[str, ...]
    files: tuple[DataFile, ...]
    run_id: str
    created: str
    log_id: str = ""
    since: LSN | None = None
    selection: dict[str, str] = field(default_factory=dict)
    herdpy: str = ""
    partition_by: tuple[str, ...] = ()
    definition: str = ""

    def dump(self) -> bytes:
        """The document."""
        body = asdict(self) | {
            "format": PARTITIONED_FORMAT if self.partition_by else FORMAT,
            "lsn": str(self.lsn),
            "since": None if self.since is None else str(self.since),
        }
        if not self.partition_by:
            del body["partition_by"]
        return json.dumps(body | {"checksum": _checksum(body)}, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def parse(cls, document: bytes, name: str = "manifest") -> ExportManifest:
        """The generation of a document; DamagedManifestError, which names it, for any other text."""
        try:
            body = json.loads(document)
            said = body.pop("checksum")
            if body["format"] not in (FORMAT, PARTITIONED_FORMAT):
                raise DamagedManifestError(
                    f"{name} has format {body['format']}, this program reads {FORMAT} and"
                    f" {PARTITIONED_FORMAT}: use a newer herdpy"
                )
            if said != _checksum(body):
                raise DamagedManifestError(f"{name} is damaged: its checksum does not match")
            body.pop("format")
            body["lsn"] = LSN.parse(body["lsn"])
            body["since"] = None if body["since"] is None else LSN.parse(body["since"])
            body["key"] = tuple(body["key"])
            body["partition_by"] = tuple(body.get("partition_by", ()))
            body["files"] = tuple(_file(**one) for one in body["files"])
            body.setdefault("definition", "")  # manifests of before had none
            return cls(**{one.name: body[one.name] for one in fields(cls)})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedManifestError(f"{name} is damaged: {error}") from error

    @property
    def fingerprint(self) -> Fingerprint:
        """Of all rows."""
        return sum((one.fingerprint for one in self.files), Fingerprint())


def _file(path: str, size_bytes: int, fingerprint: dict[str, int]) -> DataFile:
    return DataFile(path, size_bytes, Fingerprint(**fingerprint))


def _checksum(body: dict[str, Any]) -> str:
    plain = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


MANIFESTS = "_herdpy"
DATA = "_data"
_NAME = re.compile(r"manifest-(\d{8})\.json")
_DIRECTORY = re.compile(r"(\d{8})-[\w.-]+")


class Generations:
    """The export in a place."""

    def __init__(self, at: ExportPlace) -> None:
        self.place = at

    def numbers(self) -> list[int]:
        """Which generations there are, oldest first."""
        found = (_NAME.fullmatch(name) for name in self.place.names(MANIFESTS))
        return sorted(int(match[1]) for match in found if match)

    def load(self, number: int) -> ExportManifest:
        """That generation; JobError when there is none, DamagedManifestError when its manifest is damaged."""
        name = _manifest(number)
        try:
            document = self.place.read(name)
        except FileNotFoundError:
            there = ", ".join(map(str, self.numbers())) or "none"
            raise JobError(f"{self.place.url} has no generation {number}; there: {there}") from None
        return ExportManifest.parse(document, self.place.join(name))

    def newest(self) -> ExportManifest | None:
        """The generation that readers want; None where nothing was exported yet."""
        numbers = self.numbers()
        return self.load(numbers[-1]) if numbers else None

    def directory(self, number: int, run_id: str) -> str:
        """Where a run writes the files of its generation."""
        return f"{DATA}/{number:08d}-{run_id}"

    def publish(self, manifest: ExportManifest) -> None:
        """Make the generation exist. JobError when its number is taken: another run was quicker."""
        taken = JobError(
            f"generation {manifest.generation} of {self.place.url} was published by another run meanwhile",
            hint="Nothing was changed by this one. Run it again to go on from there.",
        )
        if self.place.size(_manifest(manifest.generation)) is not None:
            raise taken  # looked at first: the winner may have swept the loser's files
        sizes = self.place.sizes(DATA)
        for one in manifest.files:
            size = sizes.get(one.path)
            if size != one.size_bytes:
                raise JobError(
                    f"{self.place.join(one.path)} has {size} bytes where {one.size_bytes} were written",
                    hint="Something removes or changes files of this export. Run a full export.",
                )
        if not self.place.create(_manifest(manifest.generation), manifest.dump()):
            raise taken

    def files(self, manifest: ExportManifest) -> list[str]:
        """What Spark calls the generation's files."""
        return [self.place.join(one.path) for one in manifest.files]

    def sweep(self, keep: int) -> list[str]:
        """Remove all but the newest ``keep`` generations, and files that none of those names.

        Directories of numbers above the newest generation's are left alone: a run may be writing there.
        Returns what was removed.
        """
        numbers = self.numbers()
        if not numbers:
            return []
        removed = [_manifest(number) for number in numbers[: -max(keep, 1)]]
        named = {one.path for number in numbers[-max(keep, 1) :] for one in self.load(number).files}
        for name in removed:  # manifests first: what is there must be whole
            self.place.remove(name)
        removed += self._unnamed(named, numbers[-1])
        return removed

    def _unnamed(self, named: Iterable[str], newest: int) -> list[str]:
        named = set(named)
        removed = []
        for directory in self.place.names(DATA):
            match = _DIRECTORY.fullmatch(directory)
            if match is None or int(match[1]) > newest:
                continue
            inside = self.place.sizes(f"{DATA}/{directory}")
            if not named.intersection(inside):
                self.place.remove(f"{DATA}/{directory}")
                removed.append(f"{DATA}/{directory}")
                continue
            for name in inside:
                if name not in named:
                    self.place.remove(name)
                    removed.append(name)
        return removed


def _manifest(number: int) -> str:
    return f"{MANIFESTS}/manifest-{number:08d}.json"


def publish(this: JobRun, generations: Generations, manifest: ExportManifest) -> None:
    """Publish, and say what that is worth there. JobError, as ``Generations.publish``."""
    generations.publish(manifest)
    if not generations.place.is_exclusive:
        this.report["exclusive"] = False
        this.note(
            f"{generations.place.url} cannot create a file on the condition that there is none: of two runs"
            " that publish within moments, one would replace the other's generation"
        )
