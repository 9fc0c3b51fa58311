"""Plans by text, shared by the sessions of a tablespace: parsed once, planned once per catalog.

An entry of the cache is the statements of one text; each keeps the plan of the newest catalog and
settings that it was asked for. The cache is bounded: the text that was least recently used goes. A plan
holds the catalog that it was made for, with all tables that there were; so plans of catalogs that are long
gone go, too.

A session's prepared statement (:class:`PreparedStatement`) keeps the types that its parameters had when it
was parsed. When the catalog has changed since, it is planned again with those; that may not change what it
returns.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakSet

from mypy_extensions import mypyc_attr

from herdpy.codec.kinds import Datum
from herdpy_server.roles.effective_role import EffectiveRole
from herdpy_server.sessions.column_inserts import columns_of
from herdpy_server.sessions.time_slices import LIMITED, STEPPED, is_limited, is_sliced
from herdpy_server.tablespace import now_us
from herdpy_server.tracing.traceparent import without_traceparent
from herdpy_sql.catalog import Catalog, enums_of_now
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.locking import LockTablePlan
from herdpy_sql.execute.query import PointSelect
from herdpy_sql.parse import Statement, makes_temporary, moment_read, parse, split
from herdpy_sql.parse.as_of import AsOf
from herdpy_sql.plan import Engine, OutputColumn, Plan, prepare
from herdpy_sql.plan.columnar import ColumnarSelect
from herdpy_sql.types import INTEGER, TEXT, SqlType
from herdpy_sql.values import input_converter, type_of_all

DEFAULT_CAPACITY = 1000
KEPT_VERSIONS = 32
"""How many changes of definitions a plan outlives, at least, while nobody asks for it."""
_VARIANTS = 8
"""Lists of parameters' types under which one text is kept."""
_MISMATCH = "42804"
_OF_GRAMMAR = frozenset({"42601", "54001", "54000", "22021"})
"""Errors that PostgreSQL's parser raises; others come when the statement's turn does."""

_INTEGER = re.compile(r"(?<![\w.])([0-9]{1,10})(?![\w.])")
_NOT_PLAIN = re.compile(r"""['"$\\]|--|/\*|;(?!\s*\Z)""")
_MAX_INTEGER = 2**31 - 1
_LONG_TEXT = 4096

_COUNTING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "SELECT"})

_ANY = Catalog()
"""Stands for the catalogs of what was found: it is no matter of theirs."""

Converter = Callable[[object], Datum]
Declared = tuple[SqlType | None, ...]
"""Types that a client gives for $1, $2 ...; None leaves one to its place in the statement."""


class ReadyPlan:
    """A statement in its prepared state: its plan for one catalog, and what the run of a statement
    (``execution``) asks of it each time, found once.

    It goes with its catalog: rights are part of that, and a role is another object once any role has changed.

    Attributes:
        plan, catalog, engine: the plan, and what it was made for.
        permitted: the roles whose rights suffice for it.
        read_only: as of the plan. ``reads_now``: and nothing is asked of the columnar engine first, so it
            needs no lock, no transaction and no place in the log.
        asks: the columnar engine is asked first.
        is_streamed: its rows are those of the columnar engine, and may be made when they are wanted.
        calls: as of the plan: it runs functions of the catalog. ``only_locks``: it is LOCK TABLE.
            ``counts``: its answer has a number of rows.
        is_limited, is_sliced, is_stepped: how it shares the loop, see ``time_slices``. A point statement
            need not. ``one_turn``: no run of it leaves a turn to others.
        is_point: it reads or writes one row at most, in one turn. ``is_point_read``: it reads one by its key,
            and waits for nothing. ``is_resolved``: and its parameters alone make the key, see
            ``point_reads``.
    """

    __slots__ = (
        "asks",
        "calls",
        "catalog",
        "counts",
        "engine",
        "is_limited",
        "is_point",
        "is_point_read",
        "is_resolved",
        "is_sliced",
        "is_stepped",
        "is_streamed",
        "one_turn",
        "only_locks",
        "permitted",
        "plan",
        "read_only",
        "reads_now",
    )

    def __init__(self, plan: Plan, catalog: Catalog | None = None, engine: Engine = "auto") -> None:
        self.plan = plan
        self.catalog = catalog
        self.engine: Engine = engine
        self.permitted: set[EffectiveRole] = set()
        self.read_only = plan.read_only
        self.calls = plan.calls
        self.asks = plan.source is not None
        self.reads_now = plan.read_only and not self.asks
        self.counts = plan.columns is not None or plan.tag in _COUNTING
        self.only_locks = isinstance(plan, LockTablePlan)
        self.is_streamed = type(plan) is ColumnarSelect
        may_stop = not plan.brief and not self.calls
        self.is_limited = may_stop and type(plan) in LIMITED and is_limited(plan)
        self.is_sliced = may_stop and is_sliced(plan)
        self.is_stepped = isinstance(plan, STEPPED) and not self.calls
        self.one_turn = not (self.asks or self.calls or self.is_sliced or self.is_stepped)
        is_run = type(plan).run is not Plan.run  # and not carried out by the session
        self.is_point = plan.brief and self.one_turn and is_run
        self.is_point_read = self.is_point and self.reads_now
        self.is_resolved = self.is_point_read and isinstance(plan, PointSelect) and plan.get.by_parameters


@mypyc_attr(native_class=False)  # others refer to it weakly
class Prepared:
    """One statement of a text, with its plan.

    Attributes:
        ready: its newest plan; None before the first.
        makes_temporary: it makes a temporary table.
        as_of: the moment of the past that it reads; None: the present.
    """

    __slots__ = (
        "__weakref__",
        "_cache",
        "_columnar",
        "_converters",
        "_declared",
        "_typed",
        "as_of",
        "makes_temporary",
        "ready",
        "statement",
    )

    def __init__(self, cache: PlanCache, statement: Statement, declared: Declared = ()) -> None:
        self.statement = statement
        self.makes_temporary = makes_temporary(statement)
        self.as_of = moment_read(statement)
        self._cache = cache
        self._declared = declared
        self._typed: Prepared | None = None  # the same with the types of the values that it came with last
        self.ready: ReadyPlan | None = None
        self._converters: tuple[Converter, ...] = ()
        self._columnar: tuple[Catalog, tuple[SqlType, ...], Plan] | None = None

    @property
    def keyword(self) -> str:
        """The statement's first word in capitals."""
        return self.statement.keyword

    @property
    def text(self) -> str:
        """The statement's text."""
        return self.statement.text

    def bound(
        self, catalog: Catalog, engine: Engine, params: Sequence[object]
    ) -> tuple[ReadyPlan, Sequence[Datum]]:
        """The plan for this catalog, and the parameters as its datums.

        A parameter takes its type from its place in the statement. Where a value cannot have that
        type, or the place says nothing, the statement is planned again with the types of the values.

        Raises:
            SqlError: 08P01 for a wrong number of parameters, and all that planning and the
                conversion of values raise.
        """
        ready = self.ready
        if ready is None or ready.catalog is not catalog or ready.engine != engine:
            ready = self._make(catalog, engine)
        converters = self._converters
        try:
            if len(params) != len(converters):
                raise _wrong_count(len(converters), len(params))
            datums = [c(v) if v is not None else None for c, v in zip(converters, params, strict=True)]
            return ready, tuple(datums)
        except SqlError as error:
            typed = self._by_values(error, [params])
        return typed.bound(catalog, engine, params)

    def _by_values(self, error: SqlError, rows: Sequence[Sequence[object]]) -> Prepared:
        """The statement with types for all these values, which it could not take: or ``error`` raised."""
        if error.sqlstate != _MISMATCH or not rows[0]:
            raise error
        types = tuple(type_of_all(values) for values in zip(*rows, strict=False))
        if types == self._declared:
            raise error
        if self._typed is None or self._typed._declared != types:
            self._typed = Prepared(self._cache, self.statement, types)
        return self._typed

    def planned(self, catalog: Catalog, engine: Engine) -> ReadyPlan:
        """The plan for this catalog by the types that were declared; SqlError as planning raises them."""
        ready = self.ready
        if ready is None or ready.catalog is not catalog or ready.engine != engine:
            ready = self._make(catalog, engine)
        return ready

    def columnar(self, catalog: Catalog, param_types: tuple[SqlType, ...]) -> Plan:
        """The plan that asks the columnar engine, whatever is the better one; SqlError as planning raises."""
        found = self._columnar
        if found is None or found[0] is not catalog or found[1] != param_types:
            plan = prepare(self.statement, catalog, engine="columnar", param_types=param_types)
            self._columnar = found = (catalog, param_types, plan)
            self._cache.planned(self, catalog)
        return found[2]

    def check_syntax(self) -> None:
        """SqlError 42601 when it cannot be parsed; what is not supported is an error when it is run."""
        if self.ready is not None:
            return
        try:
            parse(self.statement)
        except SqlError as error:
            if error.sqlstate in _OF_GRAMMAR:
                raise

    def convert_rows(
        self, catalog: Catalog, engine: Engine, rows: Sequence[Sequence[object]]
    ) -> tuple[ReadyPlan, Sequence[tuple[Datum, ...]]]:
        """As :meth:`bound`, for the rows of executemany; ParameterColumns where they can be."""
        ready = self.planned(catalog, engine)
        columns = columns_of(ready.plan, rows, partial(self._convert_all, rows))
        if columns is not None:
            return ready, columns
        try:
            return ready, self._convert_all(rows)
        except SqlError as error:
            typed = self._by_values(error, rows)
        return typed.convert_rows(catalog, engine, rows)

    def _convert_all(self, rows: Sequence[Sequence[object]]) -> list[tuple[Datum, ...]]:
        converters = self._converters
        count = len(converters)
        converted: list[tuple[Datum, ...]] = []
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
        return converted

    def _make(self, catalog: Catalog, engine: Engine) -> ReadyPlan:
        before = self.ready
        known = None
        if before is not None and engine == before.engine and not before.plan.calls:
            known = before.plan.moved(catalog)
        plan = known or prepare(
            self.statement, catalog, engine=engine, param_types=enums_of_now(self._declared, catalog)
        )
        self._converters = tuple(input_converter(t) for t in plan.param_types)
        self.ready = ready = ReadyPlan(plan, catalog, engine)
        self._cache.planned(self, catalog)
        return ready

    def forget(self, version: int) -> bool:
        """Let go of plans of catalogs before that version; whether there are none left."""
        ready = self.ready
        if ready is not None and ready.catalog is not None and ready.catalog.version < version:
            self.ready, self._converters = None, ()
        if self._columnar is not None and self._columnar[0].version < version:
            self._columnar = None
        return self.ready is None and self._columnar is None


class ParameterCountError(SqlError):
    """A statement was given another number of parameters than it has (08P01)."""


def _wrong_count(wanted: int, given: int) -> SqlError:
    return ParameterCountError("08P01", f"the statement has {wanted} parameters, but {given} were given")


class PlanCache:
    """Statements by text."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._likenesses: OrderedDict[str, tuple[Prepared | None, Catalog]] = OrderedDict()
        self._texts: OrderedDict[str, tuple[Prepared, ...]] = OrderedDict()
        self._typed: OrderedDict[str, list[tuple[Declared, Prepared | None]]] = OrderedDict()
        self._planned: WeakSet[Prepared] = WeakSet()  # those that sessions have for themselves, too
        self._swept = 0  # the version of the catalog then

    def planned(self, one: Prepared, catalog: Catalog) -> None:
        """Note that a statement has a plan now; now and then the old ones go."""
        self._planned.add(one)
        if abs(catalog.version - self._swept) >= KEPT_VERSIONS:
            self._swept = catalog.version
            self._forget(catalog.version - KEPT_VERSIONS)

    def _forget(self, version: int) -> None:
        for one in list(self._planned):
            if one.forget(version):
                self._planned.discard(one)
        for text, (found, catalog) in list(self._likenesses.items()):
            if found is None and catalog.version < version:
                del self._likenesses[text]

    def statements(self, sql: str) -> tuple[Prepared, ...]:
        """The statements of ``sql``; SqlError 42601 when it cannot be parsed."""
        found = self._texts.get(sql)
        if found is not None:
            self._texts.move_to_end(sql)
            return found
        plain = without_traceparent(sql)[0]
        if plain is not sql:
            return self.statements(plain)
        found = tuple(Prepared(self, statement) for statement in split(sql))
        self._texts[sql] = found
        if len(self._texts) > self._capacity:
            self._texts.popitem(last=False)
        return found

    def newest_plan(self, sql: str) -> Plan | None:
        """The plan that a text's one statement has now; None where it has none, or is not known any more."""
        found = self._texts.get(sql, ())
        variants = [one for _types, one in self._typed.get(sql, ()) if one is not None]
        for one in (*reversed(variants), *(found if len(found) == 1 else ())):
            if one.ready is not None:
                plan: Plan = one.ready.plan
                return plan
        return None

    def brief(self, sql: str, catalog: Catalog, engine: Engine) -> tuple[Prepared, tuple[int, ...]] | None:
        """A brief statement that is ``sql`` once its integers are put in for parameters; and those integers.

        Clients that write values into their texts send the same few texts with ever other numbers in them.
        Only plain texts are looked at (no strings, no quoted names, no comments), and a plan is taken only
        when it is brief: then a number can be nowhere but where a parameter could.

        Returns:
            None when it is no such text; then nothing is said of it.
        """
        if len(sql) > _LONG_TEXT:
            return None
        parts = _INTEGER.split(sql)  # every second one is a number
        numbers = parts[1::2]
        likeness = "0".join(parts[::2]) if numbers else sql
        known = self._likenesses.get(likeness)
        if known is None or (known[0] is None and known[1] is not catalog):
            known = self._look_at(sql, likeness, len(numbers), catalog, engine)
        found = known[0]
        if found is None:
            return None
        values = tuple(map(int, numbers))
        return (found, values) if not values or max(values) <= _MAX_INTEGER else None

    def _look_at(
        self, sql: str, likeness: str, count: int, catalog: Catalog, engine: Engine
    ) -> tuple[Prepared | None, Catalog]:
        found = None
        if not _NOT_PLAIN.search(sql):
            order = iter(range(1, count + 1))
            text = _INTEGER.sub(lambda _match: f"${next(order)}", sql)
            try:
                found = self.typed(text, (INTEGER,) * count)
                if found is not None and not found.planned(catalog, engine).plan.brief:
                    found = None
            except SqlError:
                found = None
        self._likenesses[likeness] = known = (found, catalog if found is None else _ANY)
        if len(self._likenesses) > self._capacity:
            self._likenesses.popitem(last=False)
        return known

    def typed(self, sql: str, declared: Declared) -> Prepared | None:
        """The one statement of ``sql`` with parameters of these types; None for a text without any.

        Raises:
            SqlError: 42601, it cannot be parsed or is more than one statement.
        """
        variants = self._typed.get(sql)
        if variants is None:
            plain = without_traceparent(sql)[0]
            if plain is not sql:
                return self.typed(plain, declared)
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
        found = Prepared(self, statements[0], declared) if statements else None
        variants.append((declared, found))
        del variants[:-_VARIANTS]
        return found


_CUSTOM_PLANS = 5


@dataclass(frozen=True, slots=True)
class StatementDescription:
    """What a client may ask of a statement before it is run.

    Attributes:
        param_types: of $1, $2 ...
        columns: of its result; None when it returns no rows.
        tag: the command's name, as its command tag begins.
    """

    param_types: tuple[SqlType, ...]
    columns: tuple[OutputColumn, ...] | None
    tag: str


def no_statement(name: str) -> SqlError:
    """The error for a prepared statement that is not there."""
    if not name:
        return SqlError("26000", "unnamed prepared statement does not exist")
    return SqlError("26000", f'prepared statement "{name}" does not exist')


class PreparedStatement:
    """One prepared statement of one session. A text without a statement has ``statement`` None.

    Attributes:
        text: what was prepared.
        param_types: of its parameters, decided when it was parsed; the last is that of its commit's name, if
            it is ``named``.
        columns: of its result as of then.
        source: the text that it came with: of PREPARE, all that came in one piece with it.
        made_us: when, on the wall clock. ``binds``: how often it was bound or executed.
        by_sql: PREPARE made it, and not a message of the protocol.
        named: it is bound with the name of its commit, see ``request_ids``.
        ready: its newest plan; None of a text without a statement. ``makes_temporary``, ``as_of``: see
            ``Prepared``.
    """

    __slots__ = (
        "_cache",
        "_types",
        "as_of",
        "binds",
        "by_sql",
        "columns",
        "made_us",
        "makes_temporary",
        "named",
        "param_types",
        "ready",
        "source",
        "statement",
        "text",
    )

    def __init__(
        self,
        cache: PlanCache,
        text: str,
        prepared: Prepared | None,
        catalog: Catalog,
        engine: Engine,
        *,
        by_sql: bool = False,
        source: str | None = None,
    ) -> None:
        """Plan ``prepared``; SqlError as planning raises them."""
        self.source = text if source is None else source
        self.made_us = now_us()
        self.binds = 0
        self._cache = cache
        self.text = text
        self.by_sql = by_sql
        self.statement: Statement | None = None
        self.makes_temporary = False
        self.as_of: AsOf | None = None
        self.ready: ReadyPlan | None = None
        self.named = False
        self._types: tuple[SqlType, ...] = ()  # of the parameters of the text
        self.columns: tuple[OutputColumn, ...] | None = None
        if prepared is not None:
            self.statement = prepared.statement
            self.makes_temporary = prepared.makes_temporary
            self.as_of = prepared.as_of
            self.ready = prepared.planned(catalog, engine)
            plan = self.ready.plan
            self._types = plan.param_types
            self.columns = plan.columns
        self.param_types = self._types

    def take_name(self, number: int) -> None:
        """Expect the name of its commit as parameter ``number``. SqlError 08P01: that is not the last one."""
        if self.statement is None or number != len(self._types) + 1:
            raise SqlError(
                "08P01",
                f"the name of a commit is the last parameter: {number - 1} come before it, "
                f"but the statement requires {len(self._types)}",
            )
        self.named = True
        self.param_types = (*self._types, TEXT)

    @property
    def custom_plans(self) -> int:
        """How often PostgreSQL would have planned it for its parameters: five times at most."""
        return min(self.binds, _CUSTOM_PLANS) if self.param_types else 0

    @property
    def generic_plans(self) -> int:
        """How often PostgreSQL would have run it by the plan for all parameters."""
        return self.binds - self.custom_plans

    @property
    def keyword(self) -> str:
        """The statement's first word in capitals; "" for no statement."""
        return "" if self.statement is None else self.statement.keyword

    @property
    def plan_now(self) -> Plan:
        """The plan as of the last time that it was bound."""
        assert self.ready is not None
        return self.ready.plan

    def bound(
        self, catalog: Catalog, engine: Engine, params: Sequence[Datum]
    ) -> tuple[ReadyPlan, Sequence[Datum]]:
        """The plan for this catalog; ``params`` are its datums already.

        Raises:
            SqlError: 0A000, what it returns has changed; and all that planning raises.
        """
        ready = self.ready
        if ready is None or ready.catalog is not catalog or ready.engine != engine:
            ready = self._plan_again(catalog, engine)
        return ready, params

    def columnar(self, catalog: Catalog, param_types: tuple[SqlType, ...]) -> Plan:
        """See Prepared."""
        shared = self._cache.typed(self.text, self._types)
        assert shared is not None
        return shared.columnar(catalog, param_types)

    def _plan_again(self, catalog: Catalog, engine: Engine) -> ReadyPlan:
        shared = self._cache.typed(self.text, self._types)
        assert shared is not None
        ready = shared.planned(catalog, engine)
        columns = ready.plan.columns
        if shape_of(columns) != shape_of(self.columns):
            raise SqlError(
                "0A000", "cached plan must not change result type", routine="RevalidateCachedQuery"
            )
        self.columns = columns  # they may be another table's now
        self.ready = ready
        return ready


def shape_of(columns: tuple[OutputColumn, ...] | None) -> list[tuple[str, SqlType]] | None:
    """What of columns a client counts on."""
    return None if columns is None else [(column.name, column.type) for column in columns]
