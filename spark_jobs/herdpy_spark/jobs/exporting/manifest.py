"""What one generation of an export is, as a JSON document that proves itself.

A generation is the table as it was at one position of the log. Its manifest names every file that holds its
rows: files of earlier generations, where none of their rows has changed since, and its own. The document ends
with a checksum of the rest, so that half a manifest, or one edited by hand, is noticed. FORMAT in
docs/spark.md.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from herdpy.log.lsn import LSN

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
