"""COPY's format "arrow": an Arrow IPC stream, in pieces of any size. Beside ``textual`` and ``binary``."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from herdpy.codec.arrow_stream import (
    END_OF_STREAM,
    ArrowStreamError,
    ArrowStreamReader,
    DataAfterEndError,
    MessageTooLongError,
)
from herdpy_server.copy.target import CopyTarget
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values.reg_types import has_labels


class ArrowReader:
    """Reads an Arrow IPC stream whose fields are the columns copied, by name."""

    def __init__(self, target: CopyTarget) -> None:
        self._target = target
        self._stream = ArrowStreamReader(target.max_record_bytes)
        self._has_schema = False

    def feed(self, data: bytes) -> Sequence[pa.RecordBatch]:
        """See ``CopyReader``. Batches have the stream's own types."""
        try:
            found = self._stream.feed(data)
            for batch in found:
                batch.validate(full=True)
        except MessageTooLongError as error:
            text = f"COPY record is longer than {self._target.max_record_bytes} bytes"
            raise SqlError("54000", text) from error
        except DataAfterEndError as error:
            raise SqlError("22P04", "received copy data after EOF marker") from error
        except (ArrowStreamError, pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise _invalid(str(error)) from error
        if not self._has_schema and self._stream.schema is not None:
            self._has_schema = True
            self._check_names(self._stream.names)
        return found

    def finish(self) -> Sequence[pa.RecordBatch]:
        """See ``CopyReader``. SqlError 22P04 when the stream was cut off."""
        if self._stream.has_rest:
            raise SqlError("22P04", "unexpected EOF in COPY data")
        return ()

    def _check_names(self, names: Sequence[str]) -> None:
        wanted = [name for name, _ in self._target.columns]
        for name in names:
            if name not in wanted:
                raise SqlError("22P04", f'the Arrow stream has a field "{name}" that is not copied')
        if len(set(names)) != len(names):
            raise SqlError("22P04", "the Arrow stream has two fields of the same name")
        for name in wanted:
            if name not in names:
                raise SqlError("22P04", f'missing data for column "{name}"')


def _invalid(reason: str) -> SqlError:
    return SqlError("22P04", "invalid Arrow IPC stream in COPY data", detail=reason)


class ArrowWriter:
    """Writes an Arrow IPC stream; every message of it is a piece."""

    def __init__(self, columns: Sequence[tuple[str, SqlType]] = ()) -> None:
        """``columns``: names and types of those whose ENUMs go as their labels, not as their places."""
        self._labelled = [(at, kind) for at, (_, kind) in enumerate(columns) if has_labels(kind)]

    def start(self, schema: pa.Schema) -> Sequence[bytes]:
        """The schema's message."""
        if self._labelled:
            schema = self._shown(pa.RecordBatch.from_pylist([], schema=schema)).schema
        message: bytes = schema.serialize().to_pybytes()
        return [message]

    def batch(self, batch: pa.RecordBatch) -> Sequence[bytes]:
        """One message."""
        if self._labelled:
            batch = self._shown(batch)
        message: bytes = batch.serialize().to_pybytes()
        return [message]

    def end(self) -> Sequence[bytes]:
        """The end-of-stream mark."""
        return [END_OF_STREAM]

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        from herdpy_sql.values.label_columns import labels_of

        for at, kind in self._labelled:
            column = labels_of(batch.column(at), kind)
            batch = batch.set_column(at, pa.field(batch.schema.field(at).name, column.type), column)
        return batch
