"""Plans by text, shared by the sessions of a tablespace: parsed once, planned once per catalog.

An entry of the cache is the statements of one text; each keeps the plan of the newest catalog and
settings that it was asked for. The cache is bounded: the text that was least recently used goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from herdpy.codec.kinds import Datum
from herdpy_sql.catalog import Catalog
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import Statement, parse, split
from herdpy_sql.plan import Engine, Plan, prepare
from herdpy_sql.types import SqlType
from herdpy_sql.values import input_converter, type_of

DEFAULT_CAPACITY = 1000
_VARIANTS = 8
"""Lists of parameters' types under which one text is kept."""
_MISMATCH = "42804"
_OF_GRAMMAR = frozenset({"42601", "54001", "54000", "22021"})
"""Errors that PostgreSQL's parser raises; others come when the statement's turn does."""

Converter = Callable[[object], Datum]
Declared = tuple[SqlType | None, ...]
"""Types that a client gives for $1, $2 ...; None leaves one to its place in the statement."""


class Prepared:
    """One statement of a text, with its plan."""

    __slots__ = ("_catalog", "_converters", "_declared", "_engine", "_plan", "_typed", "statement")

    def __init__(self, statement: Statement, declared: Declared = ()) -> None:
        self.statement = statement
        self._declared = declared
        self._catalog: Catalog | None = None
        self._engine: Engine = "auto"
        self._typed: tuple[SqlType, ...] | None = None
        self._plan: Plan | None = None
        self._converters: tuple[Converter, ...] = ()

    @property
    def keyword(self) -> str:
        """The statement's first word in capitals."""
        return self.statement.keyword

    def plan(
        self, catalog: Catalog, engine: Engine, params: Sequence[object]
    ) -> tuple[Plan, tuple[Datum, ...]]:
        """The plan for this catalog, and the parameters as its datums.

        A parameter takes its type from its place in the statement. Where a value cannot have that
        type, or the place says nothing, the statement is planned again with the types of the values.

        Raises:
            SqlError: 08P01 for a wrong number of parameters, and all that planning and the
                conversion of values raise.
        """
        if self._catalog is not catalog or self._engine != engine:
            self._make(catalog, engine, None)
        try:
            return self._plan, self._convert(params)  # type: ignore[return-value]
        except SqlError as error:
            if error.sqlstate != _MISMATCH or not params:
                raise
            types = tuple(type_of(value) for value in params)
            if types == self._typed:
                raise
        self._make(catalog, engine, types)
        return self._plan, self._convert(params)  # type: ignore[return-value]

    def planned(self, catalog: Catalog, engine: Engine) -> Plan:
        """The plan for this catalog by the types that were declared; SqlError as planning raises them."""
        if self._catalog is not catalog or self._engine != engine or self._typed is not None:
            self._make(catalog, engine, None)
        return self._plan  # type: ignore[return-value]

    def check_syntax(self) -> None:
        """SqlError 42601 when it cannot be parsed; what is not supported is told when it is run."""
        if self._plan is not None:
            return
        try:
            parse(self.statement)
        except SqlError as error:
            if error.sqlstate in _OF_GRAMMAR:
                raise

    def convert_rows(
        self, catalog: Catalog, engine: Engine, rows: Sequence[Sequence[object]]
    ) -> tuple[Plan, list[tuple[Datum, ...]]]:
        """As :meth:`plan`, for the many parameter rows of executemany."""
        plan, _first = self.plan(catalog, engine, rows[0])
        converters = self._converters
        count = len(converters)
        converted = []
        try:
            for row in rows:
                if len(row) != count:
                    raise _wrong_count(count, len(row))
                converted.append(
                    tuple([c(v) if v is not None else None for c, v in zip(converters, row, strict=True)])
                )
        except SqlError as error:
            error.fields.setdefault("row", str(len(converted) + 1))
            raise
        return plan, converted

    def _make(self, catalog: Catalog, engine: Engine, types: tuple[SqlType, ...] | None) -> None:
        plan = prepare(self.statement, catalog, engine=engine, param_types=types or self._declared)
        self._converters = tuple(input_converter(t) for t in plan.param_types)
        self._plan, self._catalog, self._engine, self._typed = plan, catalog, engine, types

    def _convert(self, params: Sequence[object]) -> tuple[Datum, ...]:
        converters = self._converters
        if len(params) != len(converters):
            raise _wrong_count(len(converters), len(params))
        if not converters:
            return ()
        return tuple([c(v) if v is not None else None for c, v in zip(converters, params, strict=True)])


class ParameterCountError(SqlError):
    """A statement was given another number of parameters than it has (08P01)."""


def _wrong_count(wanted: int, given: int) -> SqlError:
    return ParameterCountError("08P01", f"the statement has {wanted} parameters, but {given} were given")


class PlanCache:
    """Statements by text."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._texts: OrderedDict[str, tuple[Prepared, ...]] = OrderedDict()
        self._typed: OrderedDict[str, list[tuple[Declared, Prepared | None]]] = OrderedDict()

    def statements(self, sql: str) -> tuple[Prepared, ...]:
        """The statements of ``sql``; SqlError 42601 when it cannot be parsed."""
        found = self._texts.get(sql)
        if found is not None:
            self._texts.move_to_end(sql)
            return found
        found = tuple(Prepared(statement) for statement in split(sql))
        self._texts[sql] = found
        if len(self._texts) > self._capacity:
            self._texts.popitem(last=False)
        return found

    def typed(self, sql: str, declared: Declared) -> Prepared | None:
        """The one statement of ``sql`` with parameters of these types; None for a text without any.

        Raises:
            SqlError: 42601, it cannot be parsed or is more than one statement.
        """
        variants = self._typed.get(sql)
        if variants is None:
            variants = self._typed[sql] = []
            if len(self._typed) > self._capacity:
                self._typed.popitem(last=False)
        else:
            self._typed.move_to_end(sql)
            for types, found in variants:
                # Mostly the very same objects, which tuples compare at once; their hash would cost more.
                if types == declared:
                    return found
        statements = split(sql)
        if len(statements) > 1:
            raise SqlError("42601", "cannot insert multiple commands into a prepared statement")
        found = Prepared(statements[0], declared) if statements else None
        variants.append((declared, found))
        del variants[:-_VARIANTS]
        return found
