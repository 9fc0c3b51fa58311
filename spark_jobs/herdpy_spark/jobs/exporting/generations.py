"""The generations of one export: found, published once, and removed when they are no longer wanted.

    <export>/_herdpy/manifest-00000007.json     the seventh generation
    <export>/_data/00000007-<run>/part-...      files that the seventh generation added

A generation exists from the moment its manifest does. The file's name is its number and is taken once: of
two runs that go on from the same generation one publishes, the other is told. Files that no manifest names
are what a run left that did not come so far; they are swept by the next one that publishes. Both
directories have names that Spark passes over, so that ``spark.read.parquet(<export>)`` finds nothing,
rather than the files of several generations at once.

A manifest is a JSON document that proves itself. A generation is the table as it was at one position of the
log. Its manifest names every file that holds its rows: files of earlier generations, where none of their
rows has changed since, and its own. The document ends with a checksum of the rest, so that half a manifest,
or one edited by hand, is noticed. FORMAT in docs/spark.md.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from herdpy.log.lsn import LSN
from herdpy_spark.jobs.errors import JobError
from herdpy_spark.jobs.exporting.places import ExportPlace

FORMAT = 1
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
        created: UTC, ISO 8601.
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

    def dump(self) -> bytes:
        """The document."""
        body = asdict(self) | {
            "format": FORMAT,
            "lsn": str(self.lsn),
            "since": None if self.since is None else str(self.since),
        }
        return json.dumps(body | {"checksum": _checksum(body)}, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def parse(cls, document: bytes, name: str = "manifest") -> ExportManifest:
        """The generation of a document; DamagedManifestError, which names it, for any other text."""
        try:
            body = json.loads(document)
            said = body.pop("checksum")
            if body["format"] != FORMAT:
                raise DamagedManifestError(
                    f"{name} has format {body['format']}, this program reads {FORMAT}: use a newer herdpy"
                )
            if said != _checksum(body):
                raise DamagedManifestError(f"{name} is damaged: its checksum does not match")
            body.pop("format")
            body["lsn"] = LSN.parse(body["lsn"])
            body["since"] = None if body["since"] is None else LSN.parse(body["since"])
            body["key"] = tuple(body["key"])
            body["files"] = tuple(_file(**one) for one in body["files"])
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
            raise taken  # asked first: the winner may have swept the loser's files
        for one in manifest.files:
            size = self.place.size(one.path)
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
            inside = [f"{DATA}/{directory}/{name}" for name in self.place.names(f"{DATA}/{directory}")]
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
