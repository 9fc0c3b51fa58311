"""Where the rows of a load come from: batches in this process, or parts that writers staged.

Beside ``rows``. Who publishes takes a batch when it wants one: nothing is read further ahead than a little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from typing import NamedTuple, Protocol

import pyarrow as pa

from herdpy_server.tablespace.work import Work

MAX_MESSAGE_BYTES = 256 << 20
"""The longest Arrow message of a staged part: a record batch."""


class StagedBatch(NamedTuple):
    """A batch, its part (from 1; 0 where there are none), and how many rows of that came before."""

    batch: pa.RecordBatch
    part: int
    first: int


class StagedRowsSource(Protocol):
    """Batches, to be taken one after the other.

    Attributes:
        rows: how many there are in all; None when nobody knows.
    """

    @property
    def rows(self) -> int | None: ...

    async def next(self) -> StagedBatch | None:
        """The next one; None after the last. SqlError, LogError: they cannot be read."""

    async def close(self) -> None:
        """Nobody takes the rest."""


class Batches:
    """Batches that an iterator gives, in whose thread it does not matter.

    Args:
        rows: how many there are in all.
        threads: as of ``Work``.
    """

    def __init__(
        self, batches: Iterable[StagedBatch], rows: int | None = None, threads: Executor | None = None
    ) -> None:
        self.rows = rows
        self._batches: Iterator[StagedBatch] = iter(batches)
        self._threads = threads

    async def next(self) -> StagedBatch | None:
        """See Source."""
        return await Work(lambda: next(self._batches, None), self._threads)

    async def close(self) -> None:
        """See Source."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()


def in_one_part(batches: Iterable[pa.RecordBatch]) -> Iterator[StagedBatch]:
    """Batches that nobody cut into parts."""
    first = 0
    for batch in batches:
        yield StagedBatch(batch, 0, first)
        first += batch.num_rows
