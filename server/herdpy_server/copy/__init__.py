"""COPY's formats: data in arbitrary pieces to Arrow batches of a table's columns, and batches to data.

Between the sessions, which have the table and the transaction, and ``wire``, which has the binary forms of
values. Text and CSV are read twice over: quickly by columns (pyarrow's CSV reader and casts) where the data
is of the kind on which it and PostgreSQL agree, else record by record, exactly as PostgreSQL does.

A format's module is imported when a statement names it. :class:`CopyDataForm` knows no connection: it travels
to a worker as a pickle, and makes what a client gets where the rows are.
"""

from __future__ import annotations

import pyarrow as pa

from herdpy_server.copy.target import CopyReader, CopyTarget, CopyWriter
from herdpy_server.wire import copy_data_messages

__all__ = ["CopyDataForm", "CopyReader", "CopyTarget", "CopyWriter", "reader", "writer"]


def reader(target: CopyTarget) -> CopyReader:
    """The reader of the target's format."""
    form = target.options.format
    if form == "arrow":
        from herdpy_server.copy.arrow import ArrowReader

        return ArrowReader(target)
    if form == "binary":
        from herdpy_server.copy.binary import BinaryReader

        return BinaryReader(target)
    from herdpy_server.copy.textual import TextualReader

    return TextualReader(target)


def writer(target: CopyTarget) -> CopyWriter:
    """The writer of the target's format."""
    form = target.options.format
    if form == "arrow":
        from herdpy_server.copy.arrow import ArrowWriter

        return ArrowWriter(target.columns)
    if form == "binary":
        from herdpy_server.copy.binary import BinaryWriter

        return BinaryWriter(target)
    from herdpy_server.copy.textual import LineWriter

    return LineWriter(target)


class CopyDataForm:
    """Makes CopyData messages of batches, in the format of a target; of text formats one for each row."""

    def __init__(self, target: CopyTarget) -> None:
        self._target = target
        self._made: CopyWriter | None = None

    def __getstate__(self) -> CopyTarget:
        return self._target

    def __setstate__(self, target: CopyTarget) -> None:
        self.__init__(target)  # type: ignore[misc]

    @property
    def _writer(self) -> CopyWriter:
        if self._made is None:
            self._made = writer(self._target)
        return self._made

    def start(self, schema: pa.Schema) -> bytes:
        """What comes before all rows."""
        return copy_data_messages(self._writer.start(schema))

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The rows of a batch. SqlError as the format's writer raises it."""
        return copy_data_messages(self._writer.batch(batch))

    def end(self) -> bytes:
        """What comes after all rows."""
        return copy_data_messages(self._writer.end())
