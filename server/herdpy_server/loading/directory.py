"""Loads into a database that is open in this process.

    begun = directory.begin(database, "nightly-7", "flights", "append", ["id", "carrier"])
    directory.publish_batches(database, "nightly-7", "flights", "append", batches)

Beside ``publishing``. Who has the directory open reads the rows from wherever they were staged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from herdpy_server.loading.load import BulkLoad, LoadMode, begin_load, find_load
from herdpy_server.loading.publishing import Publishing
from herdpy_server.loading.rows import Batches, in_one_part

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from herdpy_server.loading.load import StagingPlan
    from herdpy_server.sessions import Session
    from herdpy_server.shelter import Shelter
    from herdpy_server.store.loads import LoadOutcome

T = TypeVar("T")


class OpenDatabase(Protocol):
    """An open directory (``herdpy_server.embedded.Database``)."""

    shelter: ClassVar[type[Shelter]]

    def session(self) -> Session: ...

    def run(self, coroutine: Coroutine[Any, Any, T], session: Session | None = None) -> T: ...


def begin(
    database: OpenDatabase, load_id: str, table: str, mode: str, columns: Sequence[str]
) -> StagingPlan | LoadOutcome:
    """What to stage, or what the load came to when it was published before. SqlError as ``begin_load``."""
    load = BulkLoad(load_id, table, LoadMode(mode))
    return _in_session(database, lambda session: begin_load(session, load, columns))


def publish_batches(
    database: OpenDatabase,
    load_id: str,
    table: str,
    mode: str,
    batches: Iterable[pa.RecordBatch],
    *,
    table_id: int = 0,
) -> LoadOutcome:
    """Make rows the table's, all at once; nothing when the load was published before.

    Args:
        batches: of the schema that the plan has; taken one by one, in this thread.
        table_id: as the plan has it; 0: whichever table has the name now.

    Raises:
        SqlError: as ``Publishing.run``.
    """
    load = BulkLoad(load_id, table, LoadMode(mode), table_id)
    source = Batches(in_one_part(database.shelter.drawn(batches)))
    session = database.session()
    return database.run(Publishing(session, load, source).run(), session)


def describe(database: OpenDatabase, load_id: str) -> LoadOutcome | None:
    """What became of a load; None: it was not published, or so long ago that it is forgotten."""
    return _in_session(database, lambda session: find_load(session, load_id))


def _in_session(database: OpenDatabase, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
    session = database.session()
    try:
        return database.run(work(session), session)
    finally:
        database.run(session.close())
