"""The dialect for asyncio: ``create_async_engine("herdpy+aio:///dir")``, for directories and servers.

SQLAlchemy's engine is synchronous code in a greenlet; what it calls here awaits the asynchronous driver:

    AsyncSession -> engine, in a greenlet -> AdaptedCursor -> herdpy.aio -> the connection's thread

``create_async_engine`` comes here from ``herdpy://`` and ``herdpy+zk://``, too. SQL, types and reflection are
the synchronous dialect's. Rows of a plain cursor are fetched with the statement; those of a cursor by name
(``AsyncSession.stream``) when they are asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.connectors.asyncio import (
    AsyncAdapt_dbapi_connection,
    AsyncAdapt_dbapi_cursor,
    AsyncAdapt_dbapi_ss_cursor,
)
from sqlalchemy.pool import AsyncAdaptedQueuePool
from sqlalchemy.util import await_only
from sqlalchemy.util.concurrency import in_greenlet

from herdpy.sqlalchemy.dialect import HerdPyDialect, HerdPyZooKeeperDialect

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from herdpy import aio
    from herdpy.dbapi.connection import Connection
    from herdpy.dbapi.link import NoticeHandler

T = TypeVar("T")


class AdaptedCursor(AsyncAdapt_dbapi_cursor):
    """A cursor whose rows have all come when ``execute`` returns."""

    __slots__ = ()

    def _aenter_cursor(self, cursor: Any) -> Any:
        return cursor  # there is nothing to enter

    async def _execute_async(self, operation: Any, parameters: Any) -> Any:
        # Without the adapter's mutex: calls take turns in herdpy.aio.
        cursor: Any = self._cursor
        await cursor.execute(operation, parameters)
        if not self.server_side:
            self._rows = deque(await cursor.fetchall() if cursor.description else ())

    async def _executemany_async(self, operation: Any, seq_of_parameters: Any) -> Any:
        cursor: Any = self._cursor
        await cursor.executemany(operation, seq_of_parameters)
        if not self.server_side:
            self._rows = deque(await cursor.fetchall() if cursor.description else ())

    def nextset(self) -> bool | None:  # type: ignore[override, unused-ignore]
        """Step to the next of several results; None when there is none."""
        cursor: Any = self._cursor
        there = cursor.nextset()
        self._rows = deque(await_only(cursor.fetchall()) if there and cursor.description else ())
        return there  # type: ignore[no-any-return]

    def setinputsizes(self, *inputsizes: Any) -> None:
        """Does nothing, as PEP 249 allows."""


class AdaptedServerCursor(AsyncAdapt_dbapi_ss_cursor, AdaptedCursor):
    """A cursor by name: rows come as they are asked for.

    Attributes:
        name: of the server's cursor, as the blocking driver's cursors have it.
    """

    __slots__ = ("name",)

    def __init__(self, adapt_connection: AdaptedConnection, name: str) -> None:
        self.name = name
        super().__init__(adapt_connection)

    def _make_new_cursor(self, connection: Any) -> Any:
        return connection.cursor(self.name)


class AdaptedConnection(AsyncAdapt_dbapi_connection):
    """What the dialect asks of a connection, awaited on :class:`herdpy.aio.AsyncConnection`."""

    __slots__ = ()

    _connection: Any

    def cursor(self, name: str | None = None) -> AsyncAdapt_dbapi_cursor:  # type: ignore[override, unused-ignore]
        """A new cursor; with a name, one of the server."""
        return AdaptedCursor(self) if name is None else AdaptedServerCursor(self, name)

    @property
    def autocommit(self) -> bool:
        """Whether each statement is its own transaction."""
        return bool(self._connection.autocommit)

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        await_only(self._connection.set_autocommit(value))

    @property
    def closed(self) -> bool:
        """Whether the connection was closed or given up."""
        return bool(self._connection.closed)

    @property
    def info(self) -> aio.AsyncConnectionInfo:
        """Status and name of the connection."""
        return self._connection.info  # type: ignore[no-any-return]

    def add_notice_handler(self, handler: NoticeHandler) -> None:
        """Call ``handler``, on the loop, with each notice from now on."""
        self._connection.add_notice_handler(handler)

    def remove_notice_handler(self, handler: NoticeHandler) -> None:
        """Do not call ``handler`` any more."""
        self._connection.remove_notice_handler(handler)

    def in_thread(self, function: Callable[[Connection[Any]], T]) -> T:
        """What ``function`` returns for the blocking connection: several steps for one turn of its thread."""
        driver: aio.AsyncConnection[Any] = self._connection
        return await_only(driver.in_thread(function))

    def terminate(self) -> None:
        """Close a connection that may be lost; without waiting where nothing can be awaited."""
        try:
            if in_greenlet():  # not when it is collected
                await_only(self._connection.close())
        finally:
            if not self._connection.closed:  # it failed, or its task was cancelled once more
                self._connection.terminate()


class AdaptedModule:
    """The driver as the engine sees it: ``herdpy.dbapi``, but for ``connect``."""

    def __init__(self, driver: ModuleType, dbapi_module: ModuleType) -> None:
        self.driver = driver
        self.dbapi_module = dbapi_module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dbapi_module, name)

    def connect(self, *arguments: Any, **options: Any) -> AdaptedConnection:
        """Connect; ``async_creator_fn`` may be given to make the asynchronous connection."""
        create: Callable[..., Awaitable[Any]] = options.pop("async_creator_fn", self.driver.connect)
        return AdaptedConnection(self, await_only(create(*arguments, **options)))


class HerdPyAsyncDialect(HerdPyDialect):
    """``herdpy+aio:///directory`` and ``herdpy+aio://host:port/tablespace``."""

    driver = "aio"
    is_async = True
    has_terminate = True
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        """The asynchronous driver, adapted."""
        import herdpy.aio
        import herdpy.dbapi

        return AdaptedModule(herdpy.aio, herdpy.dbapi)

    @classmethod
    def get_pool_class(cls, url: URL) -> type[AsyncAdaptedQueuePool]:
        """A queue of connections that waits on the loop."""
        return AsyncAdaptedQueuePool

    def get_driver_connection(self, connection: Any) -> Any:
        """The :class:`herdpy.aio.AsyncConnection`."""
        return connection._connection

    def do_terminate(self, dbapi_connection: Any) -> None:
        """Close a connection that may be lost, also where nothing can be awaited."""
        dbapi_connection.terminate()

    # Steps of the blocking dialect that would each wait for a turn of the thread, in one.

    def do_ping(self, dbapi_connection: Any) -> bool:
        """A round trip that begins no transaction."""
        return bool(dbapi_connection.in_thread(super().do_ping))

    def get_isolation_level(self, dbapi_connection: Any) -> str:  # type: ignore[override, unused-ignore]
        """The level of the transaction, or of the next."""
        return str(dbapi_connection.in_thread(super().get_isolation_level))

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """For the transactions to come."""
        blocking = super().set_isolation_level
        dbapi_connection.in_thread(lambda connection: blocking(connection, level))

    def _characteristic(self, connection: Any, text: str) -> None:
        blocking = super()._characteristic
        connection.in_thread(lambda blocked: blocking(blocked, text))

    def _shown(self, connection: Any, setting: str) -> str:
        blocking = super()._shown
        return connection.in_thread(lambda blocked: blocking(blocked, setting))  # type: ignore[no-any-return]


class HerdPyZooKeeperAsyncDialect(HerdPyAsyncDialect):
    """``herdpy+zk://...`` for ``create_async_engine``."""

    driver = HerdPyZooKeeperDialect.driver
    scheme = HerdPyZooKeeperDialect.scheme
    supports_statement_cache = True
