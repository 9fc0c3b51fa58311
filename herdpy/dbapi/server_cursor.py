"""Cursors of the server: rows come as they are asked for, and no more than that are made or held.

Beside ``cursor``, whose results are whole. A named cursor is SQL's: DECLARE, FETCH, MOVE and CLOSE go through
the connection's link like any statement, so a directory and a server are alike, and the connection can be
used for other statements between two fetches.

    execute   DECLARE name CURSOR FOR query         begins a transaction, where autocommit is off
    fetch     FETCH FORWARD itersize FROM name      of ``server_answer``, into a buffer
    close     the cursor is dropped; its transaction's end does that too
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from herdpy.dbapi import parameters
from herdpy.dbapi.errors import Error, InterfaceError, ProgrammingError
from herdpy.dbapi.parameters import Parameters, as_text, translate
from herdpy.dbapi.rows import R, RowFactory
from herdpy.dbapi.server_answer import ServerAnswer

if TYPE_CHECKING:
    from herdpy.dbapi.connection import Connection


class ServerCursor(ServerAnswer[R]):
    """A cursor by name; made by ``connection.cursor(name=...)``. For one thread at a time.

    Attributes:
        connection: the connection it belongs to.
        name: its name on the server, which SQL can use too.
        arraysize: how many rows ``fetchmany()`` gives when it is not told.
        itersize: how many rows are asked for at a time by ``fetchone()`` and iteration; what is in memory at
            once.
        row_factory: what makes the rows.
        scrollable: whether it can go back; then the server keeps what was passed.
        withhold: whether it lives on after its transaction was committed; then all rows are read at once, by
            the server, which keeps them.
        rowcount: always -1: how many rows there are is not known.
    """

    __slots__ = ("scrollable", "withhold")

    rowcount = -1
    lastrowid = None

    def __init__(
        self,
        connection: Connection[Any],
        name: str,
        row_factory: RowFactory[R],
        *,
        scrollable: bool = False,
        withhold: bool = False,
    ) -> None:
        if not isinstance(name, str) or not name or "\0" in name:
            raise ProgrammingError(f"a cursor's name is text, not {name!r}", sqlstate="34000")
        super().__init__(connection, name, row_factory)
        self.scrollable = scrollable
        self.withhold = withhold

    def execute(
        self, query: str | bytes, params: Parameters | None = None, *, timeout_s: float | None = None
    ) -> Self:
        """Declare the cursor for a query; one that it was declared for before is given up.

        Args:
            query: a SELECT, VALUES or WITH without changes.
            params: as of ``Cursor.execute``.
            timeout_s: the longest that declaring may take; no limit of the fetches.

        Raises:
            Error: 25P01 there is no transaction (with autocommit, and without ``withhold``), 42P03 there is a
                cursor of this name, and what the query raises; some of that comes with the first fetch.
        """
        self._check()
        self._drop()
        text = as_text(query)
        scroll = "SCROLL" if self.scrollable else "NO SCROLL"
        hold = " WITH HOLD" if self.withhold else ""
        prefix = f"DECLARE {self._quoted} {scroll} CURSOR{hold} FOR "
        try:
            if params is None:
                parameters.check(text)
                self._run(prefix + text, timeout_s=timeout_s)
            else:
                statement = translate(prefix + text)
                self._run(statement.sql, statement.bind(params), statement, timeout_s=timeout_s)
        except Error as error:
            if error.position is not None:
                error.position = max(error.position - len(prefix), 1)
            raise
        self._is_open = True
        return self

    def executemany(self, query: str | bytes, params_seq: object) -> NoReturn:
        """A cursor of the server is for one query: InterfaceError."""
        raise InterfaceError("executemany is for cursors without a name", sqlstate="0A000")

    @property
    def statusmessage(self) -> str | None:
        """The command tag; None before ``execute``."""
        return "DECLARE CURSOR" if self._is_open else None

    @property
    def closed(self) -> bool:
        """Whether the cursor was closed."""
        return self._closed

    # The end.

    def close(self) -> None:
        """Give the cursor up, on the server too. Closing it again does nothing."""
        if not self._closed:
            self._closed = True
            self._drop()

    def _drop(self) -> None:
        if self._is_open:
            self._is_open = False
            self._reset()
            connection = self.connection
            if not connection._closed:
                with connection._lock:
                    connection._link.close_cursor(self.name)

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self.statusmessage or "no result"
        return f"<herdpy.ServerCursor {self.name!r} [{state}] at {id(self):#x}>"
