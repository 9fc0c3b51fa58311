"""The dialect: PostgreSQL's SQL as SQLAlchemy writes it, over HerdPy's driver.

What is compiled, and how a database is reflected, is the PostgreSQL base's. Here is what is the driver's:
URLs, isolation levels, ends of savepoints and transactions, lost connections, streams, and types.
Parameters are rendered with a cast to their type, as for psycopg. URLs are the driver's, but hosts with a
port each, which SQLAlchemy cannot read, are written with the port of all, or as ``?hosts=zk2:2182``.
"""

from __future__ import annotations

import decimal
import itertools
import json
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from urllib.parse import quote, urlencode

from sqlalchemy import exc
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects import postgresql, registry
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGDialect, PGExecutionContext
from sqlalchemy.dialects.postgresql.pg_catalog import INT2VECTOR, OIDVECTOR
from sqlalchemy.engine import processors

if TYPE_CHECKING:
    from sqlalchemy.engine import URL
    from sqlalchemy.engine.interfaces import Dialect

T = TypeVar("T", bound=sqltypes.TypeEngine[Any])

_FLOATS = (700, 701)
_EXACT = (20, 21, 23, 26, 1700)


class VECTOR(sqltypes.UserDefinedType[Sequence[float]]):
    """VECTOR(n): ``n`` numbers of single precision, for similarity search. Values are lists of floats."""

    cache_ok = True

    def __init__(self, dimensions: int | None = None) -> None:
        self.dimensions = dimensions

    def get_col_spec(self, **_: Any) -> str:
        """The type's text in DDL."""
        return "VECTOR" if self.dimensions is None else f"VECTOR({self.dimensions})"


def _with_cast(kind: type[T]) -> type[T]:
    """A type as ``kind`` whose parameters are rendered with a cast to it."""
    return cast(type[T], type(f"_{kind.__name__}", (kind,), {"render_bind_cast": True}))


class _Number:
    """Numbers come as float or Decimal, as the column has them; the type may want the other."""

    asdecimal: bool | None
    _effective_decimal_return_scale: int

    def bind_processor(self, dialect: Dialect) -> None:
        return None

    def result_processor(self, dialect: Dialect, coltype: Any) -> Callable[[Any], Any] | None:
        if coltype not in _FLOATS and coltype not in _EXACT:
            raise exc.InvalidRequestError(f"a column of type {coltype} does not hold numbers")
        if self.asdecimal:
            if coltype in _FLOATS:
                return processors.to_decimal_processor_factory(
                    decimal.Decimal, self._effective_decimal_return_scale
                )
            return None
        return None if coltype in _FLOATS else processors.to_float


class _Numeric(_Number, sqltypes.Numeric[Any]):  # type: ignore[misc, unused-ignore]
    pass


class _Float(_Number, sqltypes.Float[Any]):  # type: ignore[misc, unused-ignore]
    pass


class _Places:
    """The catalog's vectors of numbers come as text: ``1 2 3``."""

    def result_processor(self, dialect: Dialect, coltype: Any) -> Callable[[Any], Any]:
        return lambda value: None if value is None else [int(one) for one in value.split()]


class _Int2Vector(_Places, INT2VECTOR):
    pass


class _OidVector(_Places, OIDVECTOR):
    pass


class _Decoded:
    """The driver has decoded JSON's text already, unless the engine was given its own decoder."""

    render_bind_cast = True

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any] | None:
        return dialect.json_results(coltype)  # type: ignore[no-any-return]


class _Json(_Decoded, postgresql.JSON):
    pass


class _Jsonb(_Decoded, postgresql.JSONB):
    pass


class _JsonIndex(sqltypes.JSON.JSONIntIndexType):
    __visit_name__ = "json_int_index"
    render_bind_cast = True


class _JsonKey(sqltypes.JSON.JSONStrIndexType):
    __visit_name__ = "json_str_index"
    render_bind_cast = True


_Interval = _with_cast(postgresql.INTERVAL)

COLSPECS: dict[type[sqltypes.TypeEngine[Any]], type[sqltypes.TypeEngine[Any]]] = {
    sqltypes.Numeric: _Numeric,
    sqltypes.Float: _Float,
    sqltypes.String: _with_cast(sqltypes.String),
    sqltypes.Integer: _with_cast(sqltypes.Integer),
    sqltypes.SmallInteger: _with_cast(sqltypes.SmallInteger),
    sqltypes.BigInteger: _with_cast(sqltypes.BigInteger),
    sqltypes.Date: _with_cast(sqltypes.Date),
    sqltypes.Time: _with_cast(sqltypes.Time),
    sqltypes.DateTime: _with_cast(sqltypes.DateTime),
    sqltypes.Interval: _Interval,
    postgresql.INTERVAL: _Interval,
    sqltypes.ARRAY: _with_cast(postgresql.ARRAY),
    INT2VECTOR: _Int2Vector,
    OIDVECTOR: _OidVector,
    sqltypes.JSON: _Json,
    postgresql.JSON: _Json,
    postgresql.JSONB: _Jsonb,
    sqltypes.JSON.JSONIntIndexType: _JsonIndex,
    sqltypes.JSON.JSONStrIndexType: _JsonKey,
}
"""What takes the place of SQLAlchemy's own types, beside what its PostgreSQL base replaces."""


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
        """As PostgreSQL's. INCLUDE is never reported: indexes keep no columns besides their own."""
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
