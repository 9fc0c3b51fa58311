"""What the session itself carries out: transactions, settings, prepared statements, cursors, maintenance.

They are plans so that preparing any text gives one, but ``run`` is not called on most of them; the session
looks at their class. ``SELECT herdpy.commit_outcome('id')`` and its like stand alone in their SELECT, and
are answered from the tablespace.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn, Plan, PlanOutcome
from herdpy_sql.execute.measured import measured
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.expr import Params, bind, coerce, compile_expr
from herdpy_sql.expr.nodes import foreign_reason
from herdpy_sql.expr.scope import Scope
from herdpy_sql.expr.typenames import sql_type
from herdpy_sql.objects import CatalogObject, StatisticsDefinition
from herdpy_sql.parse import Statement, parse
from herdpy_sql.parse.object_commands import TablespaceCommand
from herdpy_sql.parse.role_commands import RightCommand, RoleCommand
from herdpy_sql.partition_map import read_tables
from herdpy_sql.plan.columnar import ColumnarSelect
from herdpy_sql.plan.scope import find_table, own_tables
from herdpy_sql.types import BIGINT, BOOLEAN, JSON, TEXT, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Row
    from herdpy_sql.parse import Command
    from herdpy_sql.storage import View

SHOWN_NAMES = {"datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone"}
"""Settings whose names are shown with capitals."""


class ControlPlan(Plan):
    """A plan that the session carries out by its class, and that changes no rows."""

    read_only = True


@dataclass(frozen=True)
class Begin(ControlPlan):
    """BEGIN or START TRANSACTION. ``modes`` in capitals, as they were said."""

    modes: tuple[str, ...] = ()
    tag: str = "BEGIN"

    @property
    def brief(self) -> bool:  # type: ignore[override]
        return not self.modes


@dataclass(frozen=True)
class Commit(ControlPlan):
    """COMMIT or END; with ``chain``, the next transaction begins at once."""

    chain: bool = False
    tag = "COMMIT"

    @property
    def brief(self) -> bool:  # type: ignore[override]
        return not self.chain


@dataclass(frozen=True)
class Rollback(ControlPlan):
    """ROLLBACK or ABORT."""

    chain: bool = False
    tag = "ROLLBACK"


@dataclass(frozen=True)
class Savepoint(ControlPlan):
    """SAVEPOINT name."""

    name: str
    tag = "SAVEPOINT"


@dataclass(frozen=True)
class ReleaseSavepoint(ControlPlan):
    """RELEASE name."""

    name: str
    tag = "RELEASE"


@dataclass(frozen=True)
class RollbackToSavepoint(ControlPlan):
    """ROLLBACK TO name."""

    name: str
    tag = "ROLLBACK"


@dataclass(frozen=True)
class SetSetting(ControlPlan):
    """SET name = value; ``value`` None is DEFAULT; ``local`` until the transaction ends."""

    name: str
    value: str | None
    local: bool = False
    tag = "SET"


@dataclass(frozen=True)
class ResetSetting(ControlPlan):
    """RESET name, or "all"."""

    name: str
    tag = "RESET"


@dataclass(frozen=True)
class ShowSetting(ControlPlan):
    """SHOW name, or "all": one row with one column named after the setting."""

    name: str
    tag = "SHOW"

    @property
    def columns(self) -> tuple[OutputColumn, ...]:  # type: ignore[override]
        """One text column; of SHOW ALL three."""
        if self.name == "all":
            return tuple(OutputColumn(name, TEXT) for name in ("name", "setting", "description"))
        return (OutputColumn(SHOWN_NAMES.get(self.name, self.name), TEXT),)


@dataclass(frozen=True)
class Checkpoint(ControlPlan):
    """CHECKPOINT."""

    tag = "CHECKPOINT"


@dataclass(frozen=True)
class Vacuum(ControlPlan):
    """VACUUM: what is in memory goes to the store, and the log that it came from may go. ANALYZE: a look.

    Attributes:
        analyzed: the look at each table, one after the other.
    """

    tag: str
    analyzed: tuple[AnalyzePlan, ...] = ()

    @property
    def reclaims(self) -> bool:
        """Whether there is anything to be done."""
        return self.tag == "VACUUM"


@dataclass(frozen=True)
class Explain(ControlPlan):
    """EXPLAIN; with ``analyze`` the session runs ``plan`` and adds what it measured.

    ``verbose_lines`` has what VERBOSE adds: the typed tree of the statement.
    """

    plan: Plan
    analyze: bool = False
    as_json: bool = False
    verbose_lines: tuple[str, ...] = ()
    tag = "EXPLAIN"

    @property
    def inner(self) -> Plan:
        """The statement explained."""
        return self.plan

    @property
    def param_types(self) -> tuple[SqlType, ...]:  # type: ignore[override]
        """Those of the statement explained."""
        return self.plan.param_types

    @property
    def columns(self) -> tuple[OutputColumn, ...]:  # type: ignore[override]
        """One column, QUERY PLAN."""
        return (OutputColumn("QUERY PLAN", JSON if self.as_json else TEXT),)

    def measured(self) -> Explain:
        """The same of a plan that counts and times its steps while it runs, once."""
        if type(self.plan) is ColumnarSelect:
            from herdpy_sql.columnar.profile import MeasuredColumnar  # loads DuckDB

            return replace(self, plan=MeasuredColumnar(self.plan))
        return replace(self, plan=measured(self.plan))

    def lines(self, measured: dict[str, object] | None = None) -> list[str]:
        """The rows of the answer; ``measured`` is what ANALYZE adds, by name."""
        from herdpy_sql.explain import explain_document, explain_lines

        if self.as_json:
            return [json.dumps([explain_document(self.plan, measured, self.verbose_lines)], indent=2)]
        return explain_lines(self.plan, measured, self.verbose_lines)


class AnalyzePlan(Plan):
    """ANALYZE table. Its source's answer is the table's statistics, as ``plan.statistics`` encodes them."""

    tag = "ANALYZE"
    engine = "columnar"

    def __init__(self, table: Table) -> None:
        from herdpy_sql.columnar.sampling import StatisticsQuery  # loads DuckDB

        self.table = table
        self.source = StatisticsQuery(table)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if source is None:
            raise ValueError("ANALYZE is given what its source saw")
        seen = StatisticsDefinition(self.table.id, msgspec.Raw(source.column(0)[0].as_py().encode()))
        name = f"statistics {self.table.id}"
        before = view.catalog.statistics_of(self.table.id)
        one = before[0] if before else CatalogObject(view.next_id, "", name, seen)
        view.put_object(replace(one, definition=seen))
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Analyze {self.table.name}"]


@dataclass(frozen=True)
class Prepare(ControlPlan):
    """PREPARE name (types) AS statement."""

    name: str
    statement: Statement
    types: tuple[SqlType | None, ...] = ()
    tag = "PREPARE"


@dataclass(frozen=True)
class Execute(ControlPlan):
    """EXECUTE name (arguments): the arguments are the outputs of a SELECT, or None."""

    name: str
    arguments: Statement | None = None
    tag = "EXECUTE"

    def datums(self, types: Sequence[SqlType], clock: Clock) -> tuple[Datum, ...]:
        """The arguments as values of the statement's parameters.

        Raises:
            SqlError: 42601 their number is wrong, 42804 one cannot have its parameter's type, 0A000 for
                what arguments cannot be, and what computing them raises.
        """
        nodes: Sequence[exp.Expression] = ()
        if self.arguments is not None:
            tree = parse(self.arguments)
            if not isinstance(tree, exp.Select) or any(v for k, v in tree.args.items() if k != "expressions"):
                raise SqlError("42601", "syntax error in the arguments of EXECUTE")
            nodes = tree.expressions
        if len(nodes) != len(types):
            raise SqlError(
                "42601",
                f'wrong number of parameters for prepared statement "{self.name}"',
                detail=f"Expected {len(types)} parameters but got {len(nodes)}.",
            )
        return tuple(_argument(i + 1, one, types[i], clock) for i, one in enumerate(nodes))


@dataclass(frozen=True)
class UndropTable(ControlPlan):
    """UNDROP TABLE: ``schema`` is None where it is looked for along the path; ``renamed`` "" for its name."""

    schema: str | None
    name: str
    renamed: str
    tag = "UNDROP TABLE"


@dataclass(frozen=True)
class Deallocate(ControlPlan):
    """DEALLOCATE name; None for ALL."""

    name: str | None

    @property
    def tag(self) -> str:  # type: ignore[override]
        """DEALLOCATE, or DEALLOCATE ALL."""
        return "DEALLOCATE ALL" if self.name is None else "DEALLOCATE"


@dataclass(frozen=True)
class DeclareCursor(ControlPlan):
    """DECLARE name CURSOR FOR query. ``scroll``: "SCROLL", "NO SCROLL" or "", where ``goes_back`` says it."""

    name: str
    query: Plan
    scroll: str = ""
    hold: bool = False
    binary: bool = False
    goes_back: bool = False
    tag = "DECLARE CURSOR"

    @property
    def inner(self) -> Plan:
        """The query."""
        return self.query

    @property
    def param_types(self) -> tuple[SqlType, ...]:  # type: ignore[override]
        """Those of the query."""
        return self.query.param_types


@dataclass(frozen=True)
class Fetch(ControlPlan):
    """FETCH or MOVE. ``direction``: FORWARD, BACKWARD, ABSOLUTE or RELATIVE; ``count`` None is ALL."""

    name: str
    direction: str = "FORWARD"
    count: int | None = 1
    move: bool = False

    @property
    def tag(self) -> str:  # type: ignore[override]
        """FETCH or MOVE."""
        return "MOVE" if self.move else "FETCH"


@dataclass(frozen=True)
class CloseCursor(ControlPlan):
    """CLOSE name; None for ALL."""

    name: str | None

    @property
    def tag(self) -> str:  # type: ignore[override]
        """CLOSE CURSOR, or CLOSE CURSOR ALL."""
        return "CLOSE CURSOR ALL" if self.name is None else "CLOSE CURSOR"


@dataclass(frozen=True)
class Discard(ControlPlan):
    """DISCARD ALL, PLANS, SEQUENCES or TEMP."""

    what: str = "ALL"

    @property
    def tag(self) -> str:  # type: ignore[override]
        """DISCARD and what."""
        return f"DISCARD {self.what}"


@dataclass(frozen=True)
class ChangeRoles(ControlPlan):
    """CREATE, ALTER or DROP ROLE."""

    command: RoleCommand

    @property
    def tag(self) -> str:  # type: ignore[override]
        """The command's name, with ROLE also where USER was said."""
        return self.command.name


@dataclass(frozen=True)
class ChangeRights(ControlPlan):
    """GRANT, REVOKE, OWNER TO and their kin."""

    command: RightCommand

    @property
    def tag(self) -> str:  # type: ignore[override]
        """The command's name; of memberships as PostgreSQL has it."""
        return self.command.name


@dataclass(frozen=True)
class ChangeTablespaces(ControlPlan):
    """CREATE, ALTER or DROP TABLESPACE."""

    command: TablespaceCommand

    @property
    def tag(self) -> str:  # type: ignore[override]
        """The command's name."""
        return self.command.name


@dataclass(frozen=True)
class CheckTablespace(ControlPlan):
    """CHECK TABLESPACE: a row for each table and index of each replica."""

    name: str
    tag = "CHECK TABLESPACE"
    columns = (
        OutputColumn("relation", TEXT),
        OutputColumn("node", TEXT),
        OutputColumn("rows", BIGINT),
        OutputColumn("checksum", TEXT),
        OutputColumn("same", BOOLEAN),
    )


@dataclass(frozen=True)
class SetConstraints(ControlPlan):
    """SET CONSTRAINTS.

    Attributes:
        names: (schema or None, name) of each; None for ALL.
        deferred: they are checked at COMMIT from now on.
    """

    names: tuple[tuple[str | None, str], ...] | None
    deferred: bool
    tag = "SET CONSTRAINTS"


@dataclass(frozen=True)
class CreateSchemaFor(ControlPlan):
    """CREATE SCHEMA ... AUTHORIZATION.

    Attributes:
        name, owner: the schema's, and the role's. ``make``: makes it.
    """

    name: str
    owner: str
    make: Callable[[View], None]
    tag = "CREATE SCHEMA"


@dataclass(frozen=True)
class Listen(ControlPlan):
    """LISTEN, and with ``ends`` UNLISTEN. ``channel``: None of UNLISTEN *."""

    channel: str | None
    ends: bool = False

    @property
    def tag(self) -> str:  # type: ignore[override]
        """The statement's name."""
        return "UNLISTEN" if self.ends else "LISTEN"


class NotifyPlan(Plan):
    """NOTIFY. It is part of what its transaction writes."""

    tag = "NOTIFY"

    def __init__(self, channel: str, payload: str) -> None:
        self.channel = channel
        self.payload = payload

    def moved(self, catalog: Catalog) -> Plan:
        del catalog
        return self

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        assert clock.sequences is not None
        clock.sequences.pg_notify(self.channel, self.payload)
        return PlanOutcome(None, 0)


def _argument(number: int, node: exp.Expression, target: SqlType, clock: Clock) -> Datum:
    params = Params()
    given = bind(node, Scope(clause="EXECUTE"), params, target)
    if reason := foreign_reason(given):
        raise SqlError("0A000", f"{reason} in EXECUTE is not supported")
    if params.types:
        raise SqlError("42P02", "there is no parameter $1")
    try:
        value = coerce(given, target, "assignment", params)
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        raise SqlError(
            "42804",
            f"parameter ${number} of type {given.type} cannot be coerced to the expected type {target}",
            hint="You will need to rewrite or cast the expression.",
        ) from error
    datum: Datum = compile_expr(value)((), (), clock)
    return datum


_FORWARD = (exp.AggFunc, exp.Window)


def goes_back(tree: Any) -> bool:
    """Whether a cursor of this query can go back."""
    if not isinstance(tree, exp.Select):
        return isinstance(tree, exp.Query) and tree.args.get("order") is not None
    if any(_makes_rows(one) for one in tree.expressions):
        return False
    if tree.args.get("order") is not None:
        return True
    if any(tree.args.get(key) for key in ("group", "distinct", "having", "joins", "laterals")):
        return False
    source = tree.args.get("from_")
    if source is None or any(one.find(*_FORWARD) is not None for one in tree.expressions):
        return False
    return goes_back(source.this.this) if isinstance(source.this, exp.Subquery) else True


def _makes_rows(node: exp.Expression) -> bool:
    return node.find(exp.ExplodingGenerateSeries, exp.GenerateSeries, exp.Unnest, exp.Explode) is not None


def command_plan(command: Command, query: Plan | None = None) -> Plan:
    """The plan of a command other than EXPLAIN and the definitions; ``query`` is that of a cursor's query.

    SqlError 0A000 for a command that has none.
    """
    if isinstance(command, RoleCommand):
        return ChangeRoles(command)
    if isinstance(command, RightCommand):
        return ChangeRights(command)
    if isinstance(command, TablespaceCommand):
        if command.name == "CHECK TABLESPACE":
            return CheckTablespace(command.tablespace)
        return ChangeTablespaces(command)
    if query is not None:
        return _cursor(command, query)
    make = _PLANS.get(command.name)
    if make is None:
        raise SqlError("0A000", f"{command.name} is not supported")
    return make(command)


def vacuum_plan(command: Command, catalog: Catalog) -> Plan:
    """The plan of VACUUM or ANALYZE, which looks at all columns. SqlError 42P01, 42703, 42701, 0A000."""
    analyzes = command.name == "ANALYZE" or bool({"ANALYZE", "ANALYSE"} & set(command.options))
    if not analyzes and any(command.listed_columns):
        raise SqlError("0A000", "ANALYZE option must be specified when a column list is provided")
    tables = [find_table(catalog, schema, name) for schema, name in command.names]
    for table, columns in zip(tables, command.listed_columns, strict=True):
        _check_columns(table, columns)
    if not analyzes:
        return Vacuum(command.name)
    chosen = tables or sorted(own_tables(catalog), key=lambda table: table.id)
    with_rows = [one for one in read_tables(catalog, chosen) if one.partition_key is None]
    return Vacuum(command.name, tuple(map(AnalyzePlan, {one.id: one for one in with_rows}.values())))


def _check_columns(table: Table, names: Sequence[str]) -> None:
    """Each is a column, and stands once. SqlError 42703, 42701."""
    for at, name in enumerate(names):
        position = table.positions.get(name)
        if position is None or table.columns[position].hidden:
            raise SqlError("42703", f'column "{name}" of relation "{table.name}" does not exist', column=name)
        if name in names[:at]:
            raise SqlError("42701", f'column "{name}" of relation "{table.name}" appears more than once')


def _cursor(command: Command, query: Plan) -> DeclareCursor:
    options = command.options
    scroll = next((option for option in options if option.endswith("SCROLL")), "")
    if isinstance(query, StagedPlan):
        raise SqlError("0A000", "DECLARE CURSOR must not contain data-modifying statements in WITH")
    if query.tag == "SELECT" and not query.read_only:  # FOR UPDATE
        if "WITH HOLD" in options:
            raise SqlError("0A000", "DECLARE CURSOR WITH HOLD ... FOR UPDATE is not supported")
        if scroll == "SCROLL":
            raise SqlError(
                "0A000",
                "DECLARE SCROLL CURSOR ... FOR UPDATE is not supported",
                detail="Scrollable cursors must be READ ONLY.",
            )
        if "INSENSITIVE" in options:
            raise SqlError("42P11", "DECLARE INSENSITIVE CURSOR ... FOR UPDATE is not valid")
        scroll = "NO SCROLL"
    assert command.inner is not None
    return DeclareCursor(
        command.argument,
        query,
        scroll,
        "WITH HOLD" in options,
        "BINARY" in options,
        goes_back(parse(command.inner)),
    )


def _type(text: str) -> SqlType | None:
    """The type that PREPARE names; None for "unknown", which its place decides."""
    if text.lower() == "unknown":
        return None
    select = f"SELECT CAST(NULL AS {text})"
    tree = parse(Statement(select, select, 0, "SELECT"))
    cast = tree.expressions[0] if isinstance(tree, exp.Select) and len(tree.expressions) == 1 else None
    if not isinstance(cast, exp.Cast):
        raise SqlError("42601", f'syntax error at or near "{text}"')
    return SqlType(sql_type(cast.to).base)  # a parameter has no modifiers


def _named(command: Command) -> str | None:
    """The name that a command is about; None for ALL."""
    return None if "ALL" in command.options else command.argument


def _set(command: Command) -> Plan:
    name, options = command.argument, command.options
    if name in {"transaction", "session characteristics"}:
        return SetSetting(name, ", ".join(options), local=name == "transaction")
    return SetSetting(name, command.value, "LOCAL" in options)


def _prepared(command: Command) -> Plan:
    assert command.inner is not None
    return Prepare(command.argument, command.inner, tuple(map(_type, command.options)))


def _fetch(command: Command) -> Plan:
    count = None if command.value is None else int(command.value)
    return Fetch(command.argument, command.options[0], count, command.name == "MOVE")


def _set_constraints(command: Command) -> Plan:
    return SetConstraints(command.names or None, command.options[0] == "DEFERRED")


_PLANS: dict[str, Callable[[Command], Plan]] = {
    "BEGIN": lambda command: Begin(tuple(command.options), command.argument or "BEGIN"),
    "COMMIT": lambda command: Commit("CHAIN" in command.options),
    "ROLLBACK": lambda command: Rollback("CHAIN" in command.options),
    "SAVEPOINT": lambda command: Savepoint(command.argument),
    "RELEASE": lambda command: ReleaseSavepoint(command.argument),
    "ROLLBACK TO": lambda command: RollbackToSavepoint(command.argument),
    "SET": _set,
    "RESET": lambda command: ResetSetting(command.argument),
    "SHOW": lambda command: ShowSetting(command.argument),
    "SET CONSTRAINTS": _set_constraints,
    "CHECKPOINT": lambda command: Checkpoint(),
    "UNDROP TABLE": lambda command: UndropTable(*command.names[0], command.argument),
    "PREPARE": _prepared,
    "EXECUTE": lambda command: Execute(command.argument, command.inner),
    "DEALLOCATE": lambda command: Deallocate(_named(command)),
    "FETCH": _fetch,
    "MOVE": _fetch,
    "CLOSE": lambda command: CloseCursor(_named(command)),
    "DISCARD": lambda command: Discard(command.options[0]),
    "LISTEN": lambda command: Listen(command.argument),
    "UNLISTEN": lambda command: Listen(_named(command), ends=True),
    "NOTIFY": lambda command: NotifyPlan(command.argument, command.value or ""),
}
"""Commands that plans are made of without more, by their names."""


SCHEMA = "herdpy"
FUNCTIONS = {
    "commit_outcome": 1,
    "forbid_commit": 1,
    "use_request_id": 1,
    "commit_position": 0,
    "leader_unreached": 0,
}
"""Name and number of arguments of each."""


@dataclass(frozen=True)
class RequestFunction(ControlPlan):
    """One of FUNCTIONS. ``literal`` is its argument, or None for a parameter or for none."""

    function: str
    name: str
    literal: str | None
    takes_parameter: bool = False
    tag = "SELECT"

    @property
    def columns(self) -> tuple[OutputColumn, ...]:  # type: ignore[override]
        """One text column."""
        return (OutputColumn(self.name, TEXT),)

    @property
    def param_types(self) -> tuple[SqlType, ...]:  # type: ignore[override]
        """Text for $1."""
        return (TEXT,) if self.takes_parameter else ()

    def argument(self, values: Sequence[Datum]) -> str:
        """The request id. SqlError 22023 for none."""
        found = values[0] if self.takes_parameter else self.literal
        if not isinstance(found, str) or not found:
            raise SqlError("22023", f"{SCHEMA}.{self.function} needs a request id")
        return found


def request_plan(tree: exp.Expression) -> RequestFunction | None:
    """The plan of a SELECT that is one of the functions; None for another. SqlError for a wrong one."""
    found = next((dot for dot in tree.find_all(exp.Dot) if _is_ours(dot)), None)
    if found is None:
        return None
    call = found.expression
    function = call.name.lower() if isinstance(call, exp.Func) else ""
    if function not in FUNCTIONS:
        raise SqlError("42883", f"function {found.sql(dialect='postgres')} does not exist")
    alone = isinstance(tree, exp.Select) and len(tree.expressions) == 1
    others = {key for key, value in tree.args.items() if value} - {"expressions"}
    whole = tree.expressions[0] if alone else None
    name = function
    if isinstance(whole, exp.Alias):
        name, whole = whole.alias, whole.this
    if whole is not found or others:
        raise SqlError("0A000", f"{SCHEMA}.{function} stands alone: SELECT {SCHEMA}.{function}(...)")
    arguments = call.expressions
    if len(arguments) != FUNCTIONS[function]:
        raise SqlError("42883", f"{SCHEMA}.{function} takes {FUNCTIONS[function]} arguments")
    if not arguments:
        return RequestFunction(function, name, None)
    argument = arguments[0].this if isinstance(arguments[0], exp.Cast) else arguments[0]
    if isinstance(argument, exp.Literal) and argument.is_string:
        return RequestFunction(function, name, argument.name)
    if isinstance(argument, exp.Parameter) and argument.name == "1":
        return RequestFunction(function, name, None, takes_parameter=True)
    raise SqlError("0A000", f"the argument of {SCHEMA}.{function} is a text or $1")


def _is_ours(dot: exp.Dot) -> bool:
    return isinstance(dot.this, exp.Identifier) and dot.this.name.lower() == SCHEMA
