"""COPY's data as the protocol's messages: what a client gets, made where the rows are.

Above the formats' writers. It knows no connection, and travels to a worker as a pickle.
"""

from __future__ import annotations

import pyarrow as pa

from herdpy_server.copy.target import CopyTarget, CopyWriter, writer
from herdpy_server.wire import copy_data_messages


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
