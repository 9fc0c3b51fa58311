"""Where the rows of a DataFrame come from: one state, held, in partitions. The package's lowest module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from herdpy.log.lsn import LSN


class BatchRows(Protocol):
    """A state of some tables; it can be pickled, and tasks read it side by side.

    Attributes:
        lsn: all of it is of this position.
        definitions: of the tables, as the catalog's JSON, in the order they were asked for.
    """

    @property
    def lsn(self) -> LSN: ...

    @property
    def definitions(self) -> tuple[bytes, ...]: ...

    @property
    def count(self) -> int:
        """How many partitions there are: of the one table, or one for each of several."""

    def held(self) -> AbstractContextManager[None]:
        """Keeps the state there while it is read, and for the lease's time after that.

        Raises:
            LapsedError: it is gone.
        """

    def read(
        self, number: int, columns: Sequence[str], low: bytes | None, high: bytes | None
    ) -> Iterator[pa.RecordBatch]:
        """Columns of a partition's rows, in the codec's Arrow types.

        Args:
            low, high: encoded keys; only rows from the first up to the second are needed.
        """


class StateKeeper(Protocol):
    """Who keeps a state of the log: a lease of a cluster, or a directory's snapshot. It can be pickled."""

    def held(self) -> AbstractContextManager[None]:
        """See ``BatchRows``."""


class LapsedError(Exception):
    """The state that a DataFrame stands on is not held any more."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the DataFrame was not read for longer than its lease, or the server that held its"
            f" state is gone. Make the DataFrame again, with a longer lease (option lease, at most 1h)"
            f" where tasks wait long"
        )

    def __reduce__(self) -> tuple[type[Exception], tuple[str]]:
        return Exception, (str(self),)
