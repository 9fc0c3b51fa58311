"""The binder: walks a sqlglot tree and gives each node its meaning, scope by scope.

``bind`` dispatches on the node's class to the handlers that ``operators``, ``scalar``,
``functions`` and ``aggregates`` register; a node without a handler is not supported (0A000), so
nothing that is not known here can reach DuckDB. ``queries`` binds SELECTs and FROM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar.scope import ScanNeeds, Scope
from herdpy_sql.columnar.typed import Typed, column_dec, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.types import TEXT, UNKNOWN, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog

Handler = Callable[["Binder", Any, Scope], Typed]

HANDLERS: dict[type[exp.Expression], Handler] = {}

TRANSACTION_US = 9001
STATEMENT_US = 9002
FIRST_SURROGATE = 9100


_ELEMENTS = {
    Base.DATE: "DATE '1970-01-01' + e",
    Base.TIME: "TIME '00:00:00' + to_microseconds(e)",
    Base.TIMESTAMP: "make_timestamp(e)",
    Base.TIMESTAMPTZ: "make_timestamptz(e)",
}
"""Types whose values are numbers for DuckDB's client, and what makes them of one."""


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A value computed from a parameter at run time, for native comparison with DECIMAL(p, s)."""

    param: int
    precision: int
    scale: int


def handles(*classes: type[exp.Expression]) -> Callable[[Handler], Handler]:
    """Register a handler for node classes."""

    def register(handler: Handler) -> Handler:
        for cls in classes:
            HANDLERS[cls] = handler
        return handler

    return register


@dataclass(slots=True)
class Binder:
    """State of one translation."""

    catalog: Catalog
    zone: str = "UTC"
    params: dict[int, SqlType] = field(default_factory=dict)
    scans: list[ScanNeeds] = field(default_factory=list)
    surrogates: list[Surrogate] = field(default_factory=list)
    relations: int = 0
    scopes: int = 0
    depth: int = 0

    def scope(self, parent: Scope | None) -> Scope:
        """A new scope inside ``parent``."""
        self.scopes += 1
        return Scope(self.scopes, parent)

    def alias(self) -> str:
        """A fresh relation alias."""
        self.relations += 1
        return f"t{self.relations}"

    def bind(self, node: exp.Expression, scope: Scope) -> Typed:
        """The node's meaning; SqlError when it has none."""
        handler = HANDLERS.get(type(node))
        if handler is None:
            raise unsupported(node)
        self.depth += 1
        if self.depth > 200:
            raise SqlError("54001", "statement is nested too deeply")
        result = handler(self, node, scope)
        if node.args.get("negate") and not isinstance(node, exp.Is):
            result = typed(f"(NOT {result.sql})", result.type, result)
        self.depth -= 1
        if scope.grouped and result.vars and result.sql in scope.groups:
            own = scope.number
            rest = frozenset(v for v in result.vars if v[0] != own)
            from dataclasses import replace

            sql = f"pg_numnorm({result.sql})" if result.is_text_numeric else result.sql
            result = replace(result, sql=sql, vars=rest, scale_sql=None)
        return result

    def bind_all(self, nodes: Sequence[exp.Expression], scope: Scope) -> list[Typed]:
        """Several nodes."""
        return [self.bind(node, scope) for node in nodes]

    def param(self, number: int, target: SqlType) -> Typed:
        """Parameter ``number`` where ``target`` is expected; the first place decides its type."""
        known = self.params.get(number, UNKNOWN)
        if known.base is Base.UNKNOWN:
            known = SqlType(target.base, element=target.element) if target.base is not Base.UNKNOWN else TEXT
            self.params[number] = known
        mark = f"${number}"
        if known.element is not None:
            return self._array_param(mark, known.element, target)
        forms = {
            Base.DATE: f"(DATE '1970-01-01' + CAST({mark} AS INTEGER))",
            Base.TIME: f"(TIME '00:00:00' + to_microseconds(CAST({mark} AS BIGINT)))",
            Base.TIMESTAMP: f"make_timestamp(CAST({mark} AS BIGINT))",
            Base.TIMESTAMPTZ: f"make_timestamptz(CAST({mark} AS BIGINT))",
        }
        type_ = known if known.base is not Base.NUMERIC else SqlType(Base.NUMERIC)
        dec = column_dec(type_)
        from herdpy_sql.columnar.typed import DUCK

        sql = forms.get(known.base, f"CAST({mark} AS {DUCK.get(known.base, 'VARCHAR')})")
        result = Typed(sql, type_, dec=dec)
        if known.base is not target.base and target.base is not Base.UNKNOWN:
            from herdpy_sql.columnar.casts import cast

            return cast(self, result, SqlType(target.base))
        return result

    def _array_param(self, mark: str, element: Base, target: SqlType) -> Typed:
        """A parameter that is an array: a list in DuckDB, its elements as ``param`` has them."""
        if target.base not in (Base.ARRAY, Base.UNKNOWN) or target.element not in (None, element):
            raise SqlError("42804", f"an array of {element.value} cannot be used where {target} is expected")
        from herdpy_sql.columnar.typed import DUCK

        form = _ELEMENTS.get(element)
        held = "INTEGER" if element is Base.DATE else "BIGINT" if form else DUCK.get(element, "VARCHAR")
        if element is Base.NUMERIC:
            held = "VARCHAR"
        sql = f"CAST({mark} AS {held}[])"
        if form is not None:
            sql = f"list_transform({sql}, lambda e: {form})"
        return Typed(sql, SqlType(element), dec=column_dec(SqlType(element)), array=True)

    def surrogate(self, number: int, precision: int, scale: int) -> str:
        """DuckDB text of a DECIMAL that compares with DECIMAL(precision, scale) as the parameter does."""
        self.surrogates.append(Surrogate(number, precision, scale))
        mark = FIRST_SURROGATE + len(self.surrogates) - 1
        return f"CAST(${mark} AS DECIMAL({precision + 2},{scale + 1}))"


def unsupported(node: exp.Expression) -> SqlError:
    """0A000, naming the thing."""
    name = type(node).__name__
    if isinstance(node, (exp.ReadCSV, exp.ReadParquet)):
        name = "read_csv" if isinstance(node, exp.ReadCSV) else "read_parquet"
        return SqlError("42883", f"function {name} does not exist")
    if isinstance(node, (exp.HexString, exp.BitString)):
        return SqlError("42601", "trailing junk after numeric literal")
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
    return SqlError("0A000", f"{name} is not supported")
