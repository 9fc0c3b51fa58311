"""What a published snapshot says of itself: the LSN, the tables, their files and checksums; and its errors.

Pure: structs and JSON with a checksum of its own. ``tables`` makes it, ``shelf`` loads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google_crc32c import value as _crc32c

from herdpy.log.lsn import LSN
from herdpy.log.place import PlaceError


class DamagedSnapshotError(PlaceError):
    """A file of a snapshot is not what was written, or is gone.

    Attributes:
        file: its URL.
        reason: what is wrong, for people.
    """

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"the published snapshot is damaged: {file}: {reason}")
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[type[DamagedSnapshotError], tuple[str, str]]:
        return type(self), (self.file, self.reason)


FORMAT = 1
FILE_NAME = "manifest.json"
#: The last column of every file: the row's encoded key, which the rows are sorted by.
KEY_COLUMN = "__key"
PUBLIC = "public"
MAX_ROW_GROUP = 65_536
MAX_QUANTILES = 256


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One Parquet file: a run of a table's rows.

    Attributes:
        path: below the snapshot's directory.
        rows: how many, at least 1.
        size_bytes, xxh3_128: of the whole file; the hash in hex.
        first_key, last_key: the encoded keys of its first and its last row.
    """

    path: str
    rows: int
    size_bytes: int
    xxh3_128: str
    first_key: bytes
    last_key: bytes


@dataclass(frozen=True, slots=True)
class SnapshotTable:
    """One table.

    Attributes:
        name: with ``schema`` what tells it from others; there may be several tables of one name.
        definition: the table as the catalog's JSON has it at the LSN.
        rows: in all its files.
        files: in key order; none when the table is empty.
        quantiles: keys of rows at about equal distances, ascending, at most 256.
    """

    id: int
    name: str
    definition: str
    rows: int
    files: tuple[SnapshotFile, ...]
    quantiles: tuple[bytes, ...]

    @property
    def schema(self) -> str:
        """The schema that it is in, as the definition has it."""
        found: str = json.loads(self.definition).get("schema", PUBLIC)
        return found


@dataclass(frozen=True, slots=True)
class PublishedManifest:
    """One snapshot: every table of a tablespace but temporary ones, as of one LSN.

    Attributes:
        log_id: 16 bytes in hex: whose log the LSN is a position of.
        lsn: all entries up to it are in the tables, and nothing after it.
        crc: the running CRC of the entry at ``lsn``, None where it was not known.
        time_us: commit time of the newest transaction up to ``lsn``. Where that was not known it is a later
            moment, so a snapshot with ``time_us`` <= t holds nothing that was committed after t.
        created_us: when the snapshot was begun. Times are microseconds since 1970-01-01 UTC.
        temporary: ids of the sessions' temporary tables: the log goes on to speak of them, nobody reads them.
    """

    tablespace: str
    log_id: str
    lsn: LSN
    crc: int | None
    time_us: int
    created_us: int
    tables: tuple[SnapshotTable, ...]
    temporary: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Of all tables."""
        return sum(table.rows for table in self.tables)

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for table in self.tables for file in table.files)

    def table(self, name: str, schema: str = PUBLIC) -> SnapshotTable | None:
        """The table of that name in a schema, or None."""
        return next((one for one in self.tables if (one.schema, one.name) == (schema, name)), None)

    def encode(self) -> bytes:
        """The bytes of ``manifest.json``."""
        body = {
            "format": FORMAT,
            "tablespace": self.tablespace,
            "log_id": self.log_id,
            "lsn": list(self.lsn),
            "crc": self.crc,
            "time_us": self.time_us,
            "created_us": self.created_us,
            "tables": [_table_dict(table) for table in self.tables],
            "temporary": list(self.temporary),
        }
        return json.dumps({**body, "crc32c": _checksum(body)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes) -> PublishedManifest:
        """The manifest that ``encode`` wrote; ValueError, saying what is wrong, when the bytes are none."""
        body = json.loads(data)
        if not isinstance(body, dict) or "format" not in body:
            raise ValueError("it is not a manifest")
        if body["format"] != FORMAT:
            raise ValueError(f"it has format {body['format']}, this version knows {FORMAT}")
        if body.pop("crc32c", None) != _checksum(body):
            raise ValueError("it does not match its checksum")
        try:
            return cls(
                tablespace=body["tablespace"],
                log_id=body["log_id"],
                lsn=LSN(*body["lsn"]),
                crc=body["crc"],
                time_us=body["time_us"],
                created_us=body["created_us"],
                tables=tuple(_table(table) for table in body["tables"]),
                temporary=tuple(body.get("temporary", ())),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"it lacks something, or has it in another form: {error!r}") from error


def _checksum(body: Mapping[str, Any]) -> str:
    """CRC32C of the members in their shortest form, sorted by name: indentation does not matter."""
    return f"{_crc32c(json.dumps(body, sort_keys=True, separators=(',', ':')).encode()):08x}"


def _table_dict(table: SnapshotTable) -> dict[str, Any]:
    return {
        "id": table.id,
        "name": table.name,
        "schema": table.schema,
        "definition": table.definition,
        "rows": table.rows,
        "files": [
            {
                "path": file.path,
                "rows": file.rows,
                "size_bytes": file.size_bytes,
                "xxh3_128": file.xxh3_128,
                "first_key": file.first_key.hex(),
                "last_key": file.last_key.hex(),
            }
            for file in table.files
        ],
        "quantiles": [key.hex() for key in table.quantiles],
    }


def _table(raw: Mapping[str, Any]) -> SnapshotTable:
    files = tuple(
        SnapshotFile(
            path=file["path"],
            rows=file["rows"],
            size_bytes=file["size_bytes"],
            xxh3_128=file["xxh3_128"],
            first_key=bytes.fromhex(file["first_key"]),
            last_key=bytes.fromhex(file["last_key"]),
        )
        for file in raw["files"]
    )
    quantiles = tuple(bytes.fromhex(key) for key in raw["quantiles"])
    return SnapshotTable(raw["id"], raw["name"], raw["definition"], raw["rows"], files, quantiles)
