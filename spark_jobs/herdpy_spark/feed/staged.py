"""The rows of loads, from the ledgers in which they are staged. Beside ``changes``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from herdpy.codec.arrow import ArrowStreamReader
from herdpy.log.load_records import LoadBatch
from herdpy_spark.log.history import MAX_MESSAGE_BYTES
from herdpy_spark.log.ledgers import LogLedgers


class StagedRows:
    """Reads parts of loads of a log that is open."""

    def __init__(self, ledgers: LogLedgers) -> None:
        self._ledgers = ledgers

    def __call__(self, record: LoadBatch, part: int) -> Iterator[pa.RecordBatch]:
        """The batches of a part.

        Raises:
            LogTrimmedError: its ledger is gone.
            CorruptLedgerError, ValueError: it is damaged.
        """
        reader = ArrowStreamReader(MAX_MESSAGE_BYTES)
        with closing(self._ledgers.part(record.parts[part])) as pieces:
            for piece in pieces:
                yield from reader.feed(piece)
        if not reader.is_ended:
            raise ValueError(f"part {part} of a load ends in the middle of its Arrow stream")
