"""Calls of the catalog's functions: which function each means, and how a statement runs with them.

Over a statement's tree. ``mark_calls`` notes at each call what the binder is to ask; the binder makes a
``ProgramCall`` of it, which own plans alone evaluate: the columnar engine cannot call into a session. So

- a statement with such calls is planned for own plans;
- a function in FROM is a stage before the statement, whose rows it reads as those of a WITH query;
- where own plans do not run a query, and the calls are in its SELECT list alone, the query gives what the
  calls take, and the calls are made of its rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.absent import FUNCTIONS
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn, Plan, PlanOutcome
from herdpy_sql.execute.stages import Stage, StagedPlan
from herdpy_sql.expr import Params, bind, coerce, compile_expr, settle
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.binding import tree_binder
from herdpy_sql.expr.calls import PROGRAM
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.scope import Scope
from herdpy_sql.expr.typenames import sql_type
from herdpy_sql.given import given
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.own import own
from herdpy_sql.plan.rules import TOOLS
from herdpy_sql.plan.scope import name_of, quoted
from herdpy_sql.programs.routines import Program, candidates, chosen, has_programs, program_of
from herdpy_sql.types import TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, Row
    from herdpy_sql.expr.binder import ExprBinder
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.plan.settings import PlanSettings
    from herdpy_sql.storage import View
    from herdpy_sql.types import SqlType

    Planner = Callable[[exp.Expression, PlanSettings], Plan]

_NOT_THERE = frozenset(
    {"index expression", "index predicate", "generation", "CHECK", "DEFAULT", "USING", "partition bound"}
)
"""Clauses whose expressions are kept, and evaluated where no session is."""


class Callee:
    """What a call's name may mean, as the binder asks it.

    Attributes:
        only_rows: whichever it means, it gives rows of one column.
    """

    def __init__(self, name: str, found: Sequence[CatalogObject], catalog: Catalog) -> None:
        self.name = name
        self._found = found
        self._catalog = catalog
        programs = [program_of(one, catalog) for one in found]
        self.only_rows = all(one.gives_rows and one.row is None and not one.is_record for one in programs)

    def resolved(
        self, binder: ExprBinder, node: exp.Anonymous, *, procedures: bool = False
    ) -> tuple[Program, tuple[n.Expr, ...]]:
        """The function that a call means, and its arguments as it takes them.

        SqlError 42883, 42725, 42809 for a procedure where a function is called.
        """
        names, nodes = zip(*map(_named, node.expressions), strict=True) if node.expressions else ((), ())
        if any(names[i] and not names[i + 1] for i in range(len(names) - 1)):
            raise SqlError("42601", "positional argument cannot follow named argument")
        args = [binder.bind(one) for one in nodes]
        kinds = [one for one in self._found if _is_procedure(one) is procedures]
        found = chosen(kinds, self._catalog, [one.type for one in args], names)
        if found is None:
            raise self._absent(args, names, procedures=procedures)
        program, places = found
        given_args = []
        for argument, place in zip(program.inputs, places, strict=True):
            value = args[place] if place >= 0 else default_of(argument.default, binder.params)
            given_args.append(
                coerce(value, argument.type, "implicit" if place >= 0 else "assignment", binder.params)
            )
        return program, tuple(given_args)

    def _absent(self, args: Sequence[n.Expr], names: Sequence[str], *, procedures: bool) -> SqlError:
        types = [one.type for one in args]
        others = [one for one in self._found if _is_procedure(one) is not procedures]
        shown = ", ".join(one.name for one in types)
        if others and chosen(others, self._catalog, types, names) is not None:
            if procedures:
                return SqlError(
                    "42809", f"{self.name}({shown}) is not a procedure",
                    hint="To call a function, use SELECT.",
                )  # fmt: skip
            return SqlError(
                "42809", f"{self.name}({shown}) is a procedure", hint="To call a procedure, use CALL."
            )
        if procedures:
            return SqlError("42883", f"procedure {self.name}({shown}) does not exist")
        return no_function(self.name, types)

    def bind(self, binder: ExprBinder, node: exp.Anonymous) -> n.Expr:
        """The call as an expression. SqlError as :meth:`resolved`, 0A000 for what gives no single value."""
        clause = binder.scope.clause
        if clause in _NOT_THERE:
            raise SqlError("0A000", f"function {self.name} of the database is not supported in {clause}")
        program, args = self.resolved(binder, node)
        if program.gives_rows:
            binder.scope.refuse_rows()
            raise SqlError("0A000", f"set-returning function {self.name} is supported in FROM only")
        if program.row is not None or program.is_record:
            raise SqlError("0A000", f"function {self.name}, which gives a row, is supported in FROM only")
        if program.definition.returns == "trigger":
            raise SqlError("0A000", "trigger functions can only be called as triggers")
        result = TEXT if program.result is None else program.result
        return n.ProgramCall(result, program.id, program.name, args, program.definition.strict)


def _is_procedure(one: CatalogObject) -> bool:
    return bool(getattr(one.definition, "procedure", False))


def _named(node: exp.Expression) -> tuple[str, exp.Expression]:
    """The name of an argument, "" of one without, and its value."""
    if isinstance(node, exp.Kwarg | exp.PropertyEQ):
        return name_of(node.this) if isinstance(
            node.this, exp.Identifier
        ) else node.this.name.lower(), node.expression
    if isinstance(node, exp.Variadic):
        raise SqlError("0A000", "VARIADIC is not supported")
    return "", node


def default_of(text: str, params: Params) -> n.Expr:
    """The default of an argument as an expression."""
    tree = parse(split(f"SELECT {text}")[0])
    assert isinstance(tree, exp.Select)
    return bind(tree.expressions[0], Scope(clause="DEFAULT"), params)


def mark_calls(tree: exp.Expression, catalog: Catalog) -> bool:
    """Note at each call what functions of the catalog it may mean; whether there is one."""
    if not has_programs(catalog):
        return False
    found = False
    for node in list(tree.find_all(exp.Anonymous)):
        parent = node.parent
        schema = None
        if (
            isinstance(parent, exp.Dot)
            and parent.expression is node
            and isinstance(parent.this, exp.Identifier)
        ):
            schema = name_of(parent.this)
        elif isinstance(parent, exp.Table) and parent.args.get("db") is not None:
            schema = name_of(parent.args["db"])
        name = call_name(node)
        there = candidates(catalog, schema, name)
        if not there:
            continue
        found = True
        node.set(PROGRAM, Callee(name, there, catalog))
        if isinstance(parent, exp.Dot) and schema is not None:
            parent.replace(node)
        elif isinstance(parent, exp.Table) and schema is not None:
            parent.set("db", None)
    return found


def call_name(node: exp.Anonymous) -> str:
    """The name of a call, folded unless quoted."""
    return name_of(node.this) if isinstance(node.this, exp.Identifier) else str(node.this).lower()


def calls_within(tree: exp.Expression) -> Iterator[exp.Anonymous]:
    """The calls of the catalog's functions in a statement."""
    return (node for node in tree.find_all(exp.Anonymous) if node.args.get(PROGRAM) is not None)


_ONLY_OF_RECORD = 'a column definition list is only allowed for functions returning "record"'
_REDUNDANT = "a column definition list is redundant for a function with OUT parameters"


def refuse_definition_lists(tree: exp.Expression) -> None:
    """SqlError 42601 for types in an alias, as ``f() AS t(a INTEGER)``, but of the catalog's functions.

    Those of functions that HerdPy has not, such as json_to_record, are refused with them.
    """
    for alias in tree.find_all(exp.TableAlias):
        if any(isinstance(one, exp.ColumnDef) for one in alias.args.get("columns") or ()):
            source = alias.parent.this if isinstance(alias.parent, exp.Table | exp.Lateral) else alias.parent
            if not isinstance(source, exp.Anonymous):
                raise SqlError("42601", _ONLY_OF_RECORD)
            if source.args.get(PROGRAM) is None and call_name(source) not in FUNCTIONS:
                raise SqlError("42601", _REDUNDANT)


class ProgramRows(Plan):
    """The rows that one call of a function gives."""

    tag = "SELECT"
    read_only = False
    calls = True

    def __init__(
        self,
        program: Program,
        args: Sequence[Compiled],
        columns: tuple[OutputColumn, ...],
        param_types: tuple[SqlType, ...],
    ) -> None:
        self.program = program
        self._args = args
        self.columns = columns
        self.param_types = param_types
        self._expected = tuple((one.name, one.type) for one in columns) if program.is_record else None

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        values = [arg((), params, clock) for arg in self._args]
        program = self.program
        if program.definition.strict and None in values:
            rows: list[Any] = [] if program.gives_rows else [(None,) * len(self.columns or ())]
            return PlanOutcome(rows, len(rows))
        assert clock.sequences is not None
        found = clock.sequences.call_program(program.id, values, self._expected)
        if program.gives_rows:
            rows = found
        elif program.row is not None or program.is_record:
            rows = [(None,) * len(self.columns or ()) if found is None else found]
        else:
            rows = [(found,)]
        return PlanOutcome(rows, len(rows))

    def explain(self) -> list[str]:
        return [f"Function Scan on {self.program.name}"]


def rows_plan(
    call: exp.Anonymous, alias: exp.TableAlias | None, settings: PlanSettings, *, procedures: bool = False
) -> tuple[ProgramRows, list[str]]:
    """The plan of the rows of a call in FROM, and what its alias calls the columns."""
    scope = Scope(clause="FROM", volatile=True)
    params = settings.params()
    callee: Callee = call.args[PROGRAM]
    binder = tree_binder(scope, params)
    program, args = callee.resolved(binder, call, procedures=procedures)
    listed = list(alias.args.get("columns") or ()) if alias is not None else []
    defined = [one for one in listed if isinstance(one, exp.ColumnDef)]
    if program.is_record:
        if not defined:
            raise SqlError("42601", 'a column definition list is required for functions returning "record"')
        columns = tuple(OutputColumn(name_of(one.this), sql_type(one.args["kind"])) for one in defined)
    elif defined:
        raise SqlError("42601", _ONLY_OF_RECORD if program.row is None else _REDUNDANT)
    elif program.row is not None:
        columns = tuple(OutputColumn(name, type_) for name, type_ in program.row)
    else:
        out = next((one.name for one in program.outputs if one.name), "")
        called = name_of(alias.this) if alias is not None and alias.this is not None else program.name
        columns = (OutputColumn(out or called, program.result or TEXT),)
    names = [] if defined else [name_of(one) for one in listed]
    if len(names) > len(columns):
        called = name_of(alias.this) if alias is not None else program.name
        raise SqlError(
            "42P10",
            f'table "{called}" has {len(columns)} columns available but {len(names)} columns specified',
        )
    compiled = [compile_expr(own(settle(one, params), "a function's argument")) for one in args]
    return ProgramRows(program, compiled, columns, params.types), names


_PREFIX = "__program"


def with_programs(tree: exp.Expression, catalog: Catalog, settings: PlanSettings, planner: Planner) -> Plan:
    """The plan of a statement that calls functions of the catalog; ``planner`` plans one statement by itself.

    SqlError 0A000 where neither own plans nor stages before them can run it.
    """
    if settings.engine == "columnar":
        raise SqlError("0A000", "the columnar engine does not call functions of the database")
    tree = _rows_in_from(tree)
    sources = [one for one in tree.find_all(exp.Table) if _program_in(one) is not None]
    _refuse_lateral(tree)
    stages: list[Stage] = []
    for nth, node in enumerate(sources, 1):
        call = node.this
        if node.args.get("ordinality") or node.args.get("sample"):
            raise SqlError("0A000", "WITH ORDINALITY of a function of the database is not supported")
        plan, names = rows_plan(call, node.args.get("alias"), settings)
        name = f"{_PREFIX}{nth}"
        relation = given(nth, name, plan.columns or (), names)
        stages.append(Stage(name, plan, relation, False))
        settings = replace(settings, given={**settings.given, name: relation}).knowing(plan.param_types, call)
        alias = node.args.get("alias")
        called = (
            alias.this.copy() if alias is not None and alias.this is not None else quoted(plan.program.name)
        )
        node.set("this", quoted(name))
        node.set("alias", exp.TableAlias(this=called))
    if any(True for _ in calls_within(tree)):
        last_stages = _calling(tree, catalog, settings, planner, len(stages))
    else:
        last_stages = [Stage("", planner(tree, settings), None, False)]
    last = last_stages[-1].plan
    settings = settings.knowing(last.param_types, tree)
    if not stages and len(last_stages) == 1:
        return calling(last)
    tools = TOOLS if catalog.referencing else None
    types = settings.params().types
    return calling(StagedPlan((*stages, *last_stages), types, tools, last.tag))


def calling(plan: Plan) -> Plan:
    """The plan, marked as one that runs functions of the catalog."""
    plan.calls = True
    plan.brief = False
    plan.read_only = False
    return plan


def _program_in(node: exp.Table) -> Callee | None:
    return node.this.args.get(PROGRAM) if isinstance(node.this, exp.Anonymous) else None


def _refuse_lateral(tree: exp.Expression) -> None:
    for node in tree.find_all(exp.Lateral):
        if isinstance(node.this, exp.Anonymous) and node.this.args.get(PROGRAM) is not None:
            raise SqlError("0A000", "LATERAL with a function of the database is not supported")


def _rows_in_from(tree: exp.Expression) -> exp.Expression:
    """``SELECT f(1)`` of a function that gives rows as ``SELECT f FROM f(1)``."""
    if not isinstance(tree, exp.Select) or tree.args.get("from_") is not None or len(tree.expressions) != 1:
        return tree
    item = tree.expressions[0]
    call = item.this if isinstance(item, exp.Alias) else item
    callee = call.args.get(PROGRAM) if isinstance(call, exp.Anonymous) else None
    if callee is None or not callee.only_rows:
        return tree
    name = item.alias if isinstance(item, exp.Alias) else call_name(call)
    tree = tree.copy()
    source = exp.Table(this=call.copy(), alias=exp.TableAlias(this=quoted(call_name(call))))
    source.this.set(PROGRAM, callee)
    source.args["alias"].set("columns", [quoted(name)])
    column = exp.Column(this=quoted(name), table=quoted(call_name(call)))
    tree.set("expressions", [column])
    tree.set("from_", exp.From(this=source))
    return tree


def _calling(
    tree: exp.Expression, catalog: Catalog, settings: PlanSettings, planner: Planner, before: int
) -> list[Stage]:
    """The stages of a statement with calls in its expressions."""
    try:
        return [Stage("", planner(tree, replace(settings, engine="own")), None, False)]
    except SqlError as error:
        if error.sqlstate != "0A000" or not isinstance(tree, exp.Select) or tree.args.get("distinct"):
            raise
        refused = error
    apart = _taken_apart(tree)
    if apart is None:
        raise refused
    query, outputs = apart
    try:
        plan = planner(query, settings)
    except SqlError:
        raise refused from None
    name = f"{_PREFIX}{before + 1}"
    names = [f"c{i}" for i in range(len(plan.columns or ()))]
    relation = given(before + 1, name, plan.columns or (), names)
    source = exp.Table(this=quoted(name), alias=exp.TableAlias(this=quoted(name)))
    last = exp.Select(expressions=outputs, from_=exp.From(this=source))
    settings = replace(settings, given={**settings.given, name: relation}, engine="own")
    return [Stage(name, plan, relation, False), Stage("", planner(last, settings), None, False)]


def _taken_apart(tree: exp.Select) -> tuple[exp.Select, list[exp.Expression]] | None:
    """The query of what the calls of a SELECT list take, and the list over its columns."""
    apart = tree.copy()
    inner: list[exp.Expression] = []
    outputs: list[exp.Expression] = []
    if _names_outputs(tree):
        return None
    for item in apart.expressions:
        node = item.this if isinstance(item, exp.Alias) else item
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            return None
        name = item.alias if isinstance(item, exp.Alias) else output_name(node)
        over = _over_columns(node.copy(), inner)
        outputs.append(exp.Alias(this=over, alias=quoted(name)))
    apart.set("expressions", inner or [exp.Literal.number(1)])
    if any(True for _ in calls_within(apart)):
        return None
    return apart, outputs


def _names_outputs(tree: exp.Select) -> bool:
    """Whether GROUP BY or ORDER BY may mean an item of the SELECT list by its number or name."""
    names = {name_of(one.args["alias"]) for one in tree.expressions if isinstance(one, exp.Alias)}
    group, order = tree.args.get("group"), tree.args.get("order")
    keys = [*(group.expressions if group is not None else ())]
    keys += [one.this for one in order.expressions] if order is not None else []
    return any(
        isinstance(key, exp.Literal) or (isinstance(key, exp.Column) and not key.table and key.name in names)
        for key in keys
    )


_TAKEN = (exp.Column, exp.AggFunc, exp.Window, exp.Query)


def _over_columns(node: exp.Expression, inner: list[exp.Expression]) -> exp.Expression:
    """An expression whose parts without calls are columns of the query that ``inner`` lists."""
    if not any(True for _ in calls_within(node)):
        if node.find(*_TAKEN) is None:
            return node
        inner.append(node)
        return exp.Column(this=quoted(f"c{len(inner) - 1}"))
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expression):
            node.set(key, _over_columns(value, inner))
        elif isinstance(value, list):
            node.set(key, [_over_columns(x, inner) if isinstance(x, exp.Expression) else x for x in value])
    return node


class CallPlan(Plan):
    """CALL of a procedure."""

    tag = "CALL"
    calls = True

    def __init__(self, rows: ProgramRows) -> None:
        self._rows = rows
        self.param_types = rows.param_types
        self.columns = rows.columns if rows.program.outputs else None

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        found = self._rows.run(view, params, clock)
        return PlanOutcome(found.rows, 0) if self.columns is not None else PlanOutcome(None, 0)


class DoPlan(Plan):
    """DO."""

    tag = "DO"
    calls = True

    def __init__(self, program: Program) -> None:
        self.program = program

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        assert clock.sequences is not None
        clock.sequences.run_block(self.program)
        return PlanOutcome(None, 0)
