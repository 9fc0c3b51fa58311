"""Loads into the embedded database in a directory of this machine. Beside ``loads``.

Nobody else has the directory open: it is opened to begin a load, and again to publish it. Tasks, which run on
this machine too, stage in files below it. One of the two modules of Spark's half that know the server,
which they load late.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import google_crc32c
import pyarrow as pa

from herdpy_spark.writing.plan import (
    DirectoryFiles,
    LoadError,
    StagedFile,
    TaskRows,
    WriteMode,
    WriteOutcome,
    WritePlan,
    target_columns,
)
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.embedded import Database
    from herdpy_spark.writing.loads import Progress
    from herdpy_sql.catalog import Table

_log = logging.getLogger("herdpy_spark.loads")
T = TypeVar("T")
KEPT_S = 86_400.0
"""What was staged so long ago, and was not published, is removed when another load begins."""
_CHUNK_BYTES = 4 << 20
_READ_BYTES = 1 << 20
ipc: Any = pa.ipc


class DirectoryLoads:
    """See ``loads.LoadService``."""

    def __init__(self, path: str) -> None:
        """Args:
        path: of the database's directory.
        """
        self._path = path

    def begin(
        self, load_id: str, table: str, mode: WriteMode, columns: Sequence[str]
    ) -> WritePlan | WriteOutcome:
        """See LoadService."""
        from herdpy_server.loading import directory

        begun = self._opened(lambda database: directory.begin(database, load_id, table, mode.value, columns))
        if hasattr(begun, "lsn"):
            return _outcome(begun)
        self._sweep()
        return WritePlan(
            load_id,
            "",
            table,
            mode,
            begun.table_id,
            target_columns(begun.schema),
            b"" if begun.defaults is None else _stream(begun.defaults),
            _CHUNK_BYTES,
            DirectoryFiles(str(self._staged(load_id))),
        )

    def definition(self, table: str) -> Table | None:
        """See LoadService."""
        return self._opened(lambda database: database.tablespace.catalog.table_named(table))

    def publish(
        self, plan: WritePlan, staged: Sequence[TaskRows], progress: Progress | None = None
    ) -> WriteOutcome:
        """See LoadService."""
        from herdpy_server.loading import directory

        parts = [part for one in staged for part in one.parts if isinstance(part, StagedFile)]
        done = self._opened(
            lambda database: directory.publish_batches(
                database,
                plan.load_id,
                plan.table,
                plan.mode.value,
                _batches(parts, progress),
                table_id=plan.table_id,
            )
        )
        self._remove(plan)
        return _outcome(done)

    def abort(self, plan: WritePlan, staged: Sequence[TaskRows]) -> None:
        """See LoadService. Files are read once, by the publishing, so none of them is needed any more."""
        del staged
        self._remove(plan)

    def _opened(self, work: Callable[[Database], T]) -> T:
        from herdpy_server.embedded import opened

        try:
            with opened(self._path) as database:
                return work(database)
        except SqlError as error:
            texts = [error.message, error.detail, error.hint, error.fields.get("where")]
            raise LoadError("; ".join(text for text in texts if text), error.sqlstate) from None

    def _staged(self, load_id: str) -> Path:
        digest = hashlib.blake2b(load_id.encode(), digest_size=16).hexdigest()
        return Path(self._path) / "loads" / digest

    def _remove(self, plan: WritePlan) -> None:
        try:
            shutil.rmtree(self._staged(plan.load_id))
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("staged rows were left", extra={"load_id": plan.load_id, "error": str(error)})

    def _sweep(self) -> None:
        """Remove what loads of long ago have left."""
        for directory in (Path(self._path) / "loads").glob("*"):
            if time.time() - directory.stat().st_mtime > KEPT_S:
                shutil.rmtree(directory, ignore_errors=True)


def _batches(parts: Sequence[StagedFile], progress: Progress | None) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, each of which is as it was staged. SqlError XX001: one is not."""
    done, total = 0, sum(part.rows for part in parts)
    for part in parts:
        _check(part)
        with pa.OSFile(part.id, "rb") as file, ipc.open_stream(file) as reader:
            for batch in reader:
                yield batch
                done += batch.num_rows
                if progress is not None:
                    progress(done, total)


def _check(part: StagedFile) -> None:
    size = crc = 0
    try:
        with open(part.id, "rb") as file:
            while data := file.read(_READ_BYTES):
                size += len(data)
                crc = google_crc32c.extend(crc, data)
    except OSError as error:
        raise SqlError("58P01", f"staged rows cannot be read: {error}", hint="Write them again.") from error
    if (size, crc) != (part.size_bytes, part.crc):
        raise SqlError("XX001", f"{part.id} is not what was staged", hint="Write the rows again.")


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _outcome(done: Any) -> WriteOutcome:
    return WriteOutcome(done.load_id, str(done.lsn), done.inserted, done.updated, done.deleted, done.skipped)
