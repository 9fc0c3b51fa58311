"""The dialect: PostgreSQL's SQL as SQLAlchemy writes it, over HerdPy's driver.

What is compiled, and how a database is reflected, is the PostgreSQL base's. Here is what is the driver's:
URLs, isolation levels, savepoints' and transactions' ends, lost connections, streams.

SQLAlchemy's URLs are the driver's (``driver_url``), but for hosts with a port each, which SQLAlchemy cannot
read: ``herdpy+zk://zk1,zk2:2181/root`` is written with one port, that of all, or ``?hosts=zk2:2182``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import quote, urlencode

from sqlalchemy import exc
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGDialect, PGExecutionContext

from herdpy.sqlalchemy.types import COLSPECS, VECTOR

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


_LEVELS = ("READ COMMITTED", "READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE")
_LOST = ("57P01", "57P03", "57P05")
"""SQLSTATEs of a session that was ended from outside."""
_numbers = itertools.count(1)


def driver_url(url: URL, scheme: str) -> str:
    """The URL for ``herdpy.connect``, with user and password in it when they were given.

    Args:
        url: as SQLAlchemy read it.
        scheme: of the driver: ``herdpy`` or ``herdpy+zk``.
    """
    options = [
        (name, text)
        for name, value in url.query.items()
        for text in ([value] if isinstance(value, str) else value)
    ]
    tail = quote(url.database or "", safe="/.~-_+") + (f"?{urlencode(options)}" if options else "")
    if not url.host and not any(name == "hosts" for name, _ in options):
        return f"{scheme}:///{tail}"
    login = quote(url.username or "", safe="")
    if url.password is not None:
        login += ":" + quote(str(url.password), safe="")
    return f"{scheme}://{login}{'@' if login else ''}{_hosts(url)}/{tail}"


def _hosts(url: URL) -> str:
    port = "" if url.port is None else f":{url.port}"
    hosts = (url.host or "").split(",") if url.host else []
    return ",".join((f"[{host}]" if ":" in host else host) + port for host in hosts)


class HerdPyExecutionContext(PGExecutionContext):
    """One execution of a statement."""

    def create_server_side_cursor(self) -> Any:
        """A cursor whose rows come as they are asked for: with ``stream_results``, ``yield_per``."""
        return self._dbapi_connection.cursor(f"sqlalchemy_{next(_numbers)}")


class HerdPyDDLCompiler(PGDDLCompiler):
    """DDL: PostgreSQL's."""

    def visit_computed_column(self, generated: Any, **kw: Any) -> str:
        """A generated column. It is stored, whether that is asked for or left open."""
        if generated.persisted is False:
            raise exc.CompileError(
                "HerdPy has no virtual generated columns: omit persisted, or set it to True"
            )
        text = self.sql_compiler.process(generated.sqltext, include_table=False, literal_binds=True)
        return f"GENERATED ALWAYS AS ({text}) STORED"


class HerdPyDialect(PGDialect):
    """``herdpy:///directory`` and ``herdpy://host:port/tablespace``."""

    name = "herdpy"
    driver = "herdpy"
    scheme = "herdpy"
    default_paramstyle = "pyformat"
    supports_statement_cache = True
    supports_sane_multi_rowcount = True
    update_executemany_returning = True
    delete_executemany_returning = True
    supports_server_side_cursors = True
    supports_native_json_serialization = False
    supports_native_json_deserialization = True
    execution_ctx_cls = HerdPyExecutionContext
    ddl_compiler = HerdPyDDLCompiler
    colspecs: ClassVar[Any] = {**PGDialect.colspecs, **COLSPECS}  # type: ignore[misc, unused-ignore]
    ischema_names: ClassVar[Any] = {**PGDialect.ischema_names, "vector": VECTOR}  # type: ignore[misc, unused-ignore]

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The driver."""
        import herdpy.dbapi

        return herdpy.dbapi

    @classmethod
    def get_async_dialect_cls(cls, url: URL) -> type[HerdPyDialect]:
        """What ``create_async_engine`` makes of the same URL."""
        return cast("type[HerdPyDialect]", registry.load("herdpy.aio"))

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        """The driver's URL; options may also come as ``connect_args``."""
        return [driver_url(url, self.scheme)], {}

    # Transactions.

    def get_isolation_level_values(self, dbapi_connection: Any) -> tuple[str, ...]:  # type: ignore[override, unused-ignore]
        """The names that ``isolation_level`` takes."""
        return ("AUTOCOMMIT", *_LEVELS)

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """For the transactions to come."""
        if level == "AUTOCOMMIT":
            dbapi_connection.autocommit = True
            return
        dbapi_connection.autocommit = True  # so that SET is no transaction's
        dbapi_connection.execute(f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}")
        dbapi_connection.autocommit = False

    def get_isolation_level(self, dbapi_connection: Any) -> str:  # type: ignore[override, unused-ignore]
        """The level of the transaction, or of the next."""
        idle = dbapi_connection.info.transaction_status == 0
        level = cast(str, super().get_isolation_level(dbapi_connection))  # type: ignore[no-untyped-call, unused-ignore]
        if idle:
            dbapi_connection.rollback()
        return level

    def detect_autocommit_setting(self, dbapi_connection: Any) -> bool:
        """Whether the driver commits each statement."""
        return bool(dbapi_connection.autocommit)

    def set_readonly(self, connection: Any, value: bool) -> None:
        """Whether the transactions to come may only read."""
        self._characteristic(connection, "READ ONLY" if value else "READ WRITE")

    def get_readonly(self, connection: Any) -> bool:
        """Whether transactions may only read."""
        return self._shown(connection, "default_transaction_read_only") == "on"

    def set_deferrable(self, connection: Any, value: bool) -> None:
        """Whether the transactions to come may wait for a safe snapshot."""
        self._characteristic(connection, "DEFERRABLE" if value else "NOT DEFERRABLE")

    def get_deferrable(self, connection: Any) -> bool:
        """Whether transactions may wait for a safe snapshot."""
        return self._shown(connection, "default_transaction_deferrable") == "on"

    def _characteristic(self, connection: Any, text: str) -> None:
        before, connection.autocommit = connection.autocommit, True
        try:
            connection.execute(f"SET SESSION CHARACTERISTICS AS TRANSACTION {text}")
        finally:
            connection.autocommit = before

    def _shown(self, connection: Any, setting: str) -> str:
        idle = connection.info.transaction_status == 0
        ((value,),) = connection.execute(f"SHOW {setting}").fetchall()
        if idle:
            connection.rollback()
        return cast(str, value)

    # Connections.

    def do_ping(self, dbapi_connection: Any) -> bool:
        """A round trip that begins no transaction."""
        before = dbapi_connection.autocommit
        if not before:
            dbapi_connection.autocommit = True
        try:
            dbapi_connection.execute("SELECT 1").close()
        finally:
            if not before and not dbapi_connection.closed:
                dbapi_connection.autocommit = before
        return True

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Whether the session was lost, so that others of the pool should be looked at, too."""
        if connection is not None and getattr(connection, "closed", False):
            return True
        sqlstate = getattr(e, "sqlstate", None) or ""
        return sqlstate.startswith("08") or sqlstate in _LOST

    # Reflection.

    def get_multi_indexes(self, connection: Any, **kw: Any) -> Any:  # type: ignore[override, unused-ignore]
        """As PostgreSQL's. INCLUDE is never told of: indexes keep no columns besides their own."""
        found = []
        for key, indexes in super().get_multi_indexes(connection, **kw):  # type: ignore[no-untyped-call, unused-ignore]
            for index in indexes:
                index.pop("include_columns", None)
                options = index.get("dialect_options", {})
                options.pop("postgresql_include", None)
            found.append((key, indexes))
        return found

    # Values.

    def json_results(self, coltype: Any) -> Callable[[Any], Any] | None:
        """What makes a value of JSON's text by the engine's own decoder; None when it has none."""
        loads = self._json_deserializer
        if loads is None:
            return None
        return lambda value: None if value is None else loads(json.dumps(value))


class HerdPyZooKeeperDialect(HerdPyDialect):
    """``herdpy+zk://zk1,zk2:2181/root?tablespace=x``: servers are found in ZooKeeper."""

    driver = "zk"
    scheme = "herdpy+zk"
    supports_statement_cache = True

    @classmethod
    def get_async_dialect_cls(cls, url: URL) -> type[HerdPyDialect]:
        """What ``create_async_engine`` makes of the same URL."""
        return cast("type[HerdPyDialect]", registry.load("herdpy.zk_aio"))
