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
from herdpy_sql.parse import Statement, split
from herdpy_sql.plan import Engine, Plan, prepare
from herdpy_sql.types import SqlType
from herdpy_sql.values import input_converter, type_of

DEFAULT_CAPACITY = 1000
_MISMATCH = "42804"

Converter = Callable[[object], Datum]


class Prepared:
    """One statement of a text, with its plan."""

    __slots__ = ("_catalog", "_converters", "_engine", "_plan", "_typed", "statement")

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._catalog: Catalog | None = None
        self._engine: Engine = "auto"
        self._typed: tuple[SqlType, ...] | None = None
        self._plan: Plan | None = None
        self._converters: tuple[Converter, ...] = ()

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
        plan = prepare(self.statement, catalog, engine=engine, param_types=types or ())
        self._converters = tuple(input_converter(t) for t in plan.param_types)
        self._plan, self._catalog, self._engine, self._typed = plan, catalog, engine, types

    def _convert(self, params: Sequence[object]) -> tuple[Datum, ...]:
        converters = self._converters
        if len(params) != len(converters):
            raise _wrong_count(len(converters), len(params))
        if not converters:
            return ()
        return tuple([c(v) if v is not None else None for c, v in zip(converters, params, strict=True)])


def _wrong_count(wanted: int, given: int) -> SqlError:
    return SqlError("08P01", f"the statement has {wanted} parameters, but {given} were given")


class PlanCache:
    """Statements by text."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._texts: OrderedDict[str, tuple[Prepared, ...]] = OrderedDict()

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
