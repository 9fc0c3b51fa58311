"""Who answers what DuckDB is asked: the seam between sessions and where CPU-bound reading is done.

Below ``backend_queries``, above ``work``. A session has an :class:`QueryBackend` and does not know which: the
embedded database's is ``in_process``, a thread of the same process; a server's is the pool of ``workers``.
Both answer a :class:`QueryRequest` as of the snapshot that is opened while it is asked, in batches
(:class:`Answer`) or as bytes for the client (:class:`Export`). All of it is for the thread that runs the
session, and awaits :class:`~herdpy.log.wait.Wait` alone, since sessions are stepped by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_server.store import StoreSnapshot
    from herdpy_sql.columnar import Interrupt, Limits
    from herdpy_sql.storage import Clock


BATCH_ROWS = 8192
"""The most rows of a batch that an answer gives."""


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """What is asked.

    Attributes:
        query: a ColumnarQuery, or a CatalogQuery that has begun.
        values: its parameters as datums.
        open_snapshot: what the statement sees, as of the call; called once the answer can begin, perhaps
            more than once. Raises SourceChanged when the plan does not fit the definitions any more.
        interrupt: its ``cancel`` ends the asking and whatever is left of the answer.
    """

    query: Any
    values: Sequence[Datum]
    clock: Clock
    open_snapshot: Callable[[], StoreSnapshot]
    limits: Limits
    interrupt: Interrupt


class Answer(Protocol):
    """Rows that are read once, in order. Close it, or what makes it stays occupied.

    It is dropped with its session's statement; one coroutine at a time reads it. ``schema`` has the types of
    the query's columns (``herdpy.codec.arrow.arrow_type``).
    """

    @property
    def schema(self) -> pa.Schema:
        """Of the batches."""

    async def next(self) -> pa.RecordBatch | None:
        """The next batch, of at most BATCH_ROWS rows and one at least; None after the last.

        Raises:
            SqlError: what the query did wrong, 57014 when it was cancelled, 58000 when its worker died
                and others as the backend says. After an error there is nothing more to be had.
        """

    async def all(self) -> pa.Table:
        """All that is left, as one table. Raises as :meth:`next`."""

    def close(self) -> None:
        """End it; what was not read is not made. A second call does nothing."""


class Form(Protocol):
    """Makes bytes of an answer, wherever it is made. It must be picklable, and is used once.

    ``herdpy_server.copy.CopyDataForm`` is one.
    """

    def start(self, schema: pa.Schema) -> bytes:
        """What comes before all rows."""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The rows of a batch."""

    def end(self) -> bytes:
        """What comes after all rows."""


class Export(Protocol):
    """An answer as bytes. As :class:`Answer`, but for what it gives."""

    @property
    def rows(self) -> int:
        """How many rows are in what was given so far."""

    async def next(self) -> bytes | None:
        """The next piece, some tens of kilobytes or more; None after the last. Raises as Answer's."""

    def close(self) -> None:
        """End it; a second call does nothing."""


class QueryBackend(Protocol):
    """Answers questions.

    When ``ask`` or ``export`` has returned, the request's snapshot was taken: the workspace's
    ``read_position`` is what the answer rests on. Nothing may be sent to the client before that is
    durable. What is raised while asking is as of ``Answer.next``, and SourceChanged of ``open_snapshot``.
    """

    async def ask(self, request: QueryRequest) -> Answer:
        """Begin to answer."""

    async def export(self, request: QueryRequest, form: Form) -> Export:
        """Begin to answer in the client's format."""
