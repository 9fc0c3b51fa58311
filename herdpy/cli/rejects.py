"""Records that could not be imported, and the file they are kept in."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from herdpy.cli.source import SourceRecord


@dataclass(frozen=True, slots=True)
class Bad:
    """A record, and why it is none of the table's."""

    record: SourceRecord
    reason: str


class Rejects:
    """The file of rejects: JSON lines, cut back to what belongs to committed batches."""

    def __init__(self, path: Path | None, size: int) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self.size = size

    def __enter__(self) -> Rejects:
        if self._path is not None and self._path.exists():
            with self._path.open("r+b") as file:
                file.truncate(self.size)
        return self

    def write(self, bad: Sequence[Bad]) -> None:
        """Add records, synced: the transaction that counts them commits next."""
        if not bad or self._path is None:
            return
        if self._file is None:
            self._file = self._path.open("ab")
        for one in bad:
            line = {"line": one.record.line, "error": one.reason, "text": one.record.text.rstrip("\r\n")}
            self.size += self._file.write(json.dumps(line, ensure_ascii=True).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
