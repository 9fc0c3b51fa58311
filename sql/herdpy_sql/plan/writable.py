"""WITH queries that change data: every statement of the whole planned by itself, to be run one after another.

Each WITH query becomes a stage, whose rows those behind it read by name (``given``), and the
statement itself is the last stage. What SELECTs in WITH say is asked for once, if anybody reads it; what
changes data is always carried out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.bind.with_queries import in_order
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.stages import Stage, StagedPlan
from herdpy_sql.expr.scope import not_allowed
from herdpy_sql.given import given
from herdpy_sql.plan.returning import target_name
from herdpy_sql.plan.rules import TOOLS
from herdpy_sql.plan.scope import name_of, quoted, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.plan.settings import PlanSettings

    Planner = Callable[[exp.Expression, PlanSettings], Plan]

CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
_RETURNED = "__returned"
_APART = 1000
"""Relations of RETURNING are numbered behind those of WITH queries."""


def changes_data(tree: exp.Expression) -> bool:
    """Whether a WITH query of this statement changes data."""
    with_ = tree.args.get("with_")
    return with_ is not None and any(isinstance(cte.this, CHANGES) for cte in with_.expressions)


def bind_staged(
    tree: exp.Expression,
    catalog: Catalog,
    settings: PlanSettings,
    planner: Planner,
) -> Plan:
    """The plan of a statement with such WITH queries; ``planner`` plans one statement by itself."""
    return _settled(lambda known: _bind(tree, catalog, known, planner), settings)


def bind_returning_apart(
    tree: exp.Expression,
    catalog: Catalog,
    settings: PlanSettings,
    planner: Planner,
) -> Plan:
    """The plan of a statement whose RETURNING is asked for as a query over the rows that it returns."""
    if tree.args.get("from_") is not None or tree.args.get("using"):
        raise SqlError("0A000", "RETURNING: subqueries are not supported beside other tables")
    for one in tree.args["returning"].find_all(exp.Window, exp.AggFunc):
        if one.find_ancestor(exp.Query, exp.Returning).__class__ is exp.Returning:
            raise not_allowed("windows" if isinstance(one, exp.Window) else "aggregates", "RETURNING")
    return _settled(lambda known: _bind_apart(tree, catalog, known, planner), settings)


def _bind_apart(
    tree: exp.Expression, catalog: Catalog, settings: PlanSettings, planner: Planner
) -> tuple[StagedPlan, PlanSettings]:
    table = table_of(catalog, tree.this)
    changed = tree.copy()
    changed.set("returning", exp.Returning(expressions=[exp.Star()]))
    plan = planner(changed, settings)
    assert plan.columns is not None
    relation = given(_APART + len(settings.given), _RETURNED, plan.columns, ())
    alias = exp.TableAlias(this=quoted(target_name(tree, table)))
    source = exp.Table(this=quoted(_RETURNED), alias=alias)
    select = exp.Select(
        expressions=[one.copy() for one in tree.args["returning"].expressions], from_=exp.From(this=source)
    )
    if tree.args.get("with_") is not None:
        select.set("with_", tree.args["with_"].copy())
    settings = settings.knowing(plan.param_types, changed)
    asked = planner(select, replace(settings, given={**settings.given, _RETURNED: relation}))
    settings = settings.knowing(asked.param_types, select)
    stages = (Stage("", plan, relation, True), Stage("", asked, None, False))
    tools = TOOLS if catalog.checks_later else None
    return StagedPlan(stages, settings.params().types, tools, plan.tag), settings


def _settled(bind: Callable[[PlanSettings], tuple[StagedPlan, PlanSettings]], settings: PlanSettings) -> Plan:
    """What ``bind`` gives when every parameter has its type: it may come from a place behind its first.

    ``bind`` gives the settings with the types that it has found, too.
    """
    while True:
        plan, found = bind(settings)
        if found.param_types == settings.param_types:
            return plan
        settings = replace(settings, param_types=found.param_types)


def _bind(
    tree: exp.Expression,
    catalog: Catalog,
    settings: PlanSettings,
    planner: Planner,
) -> tuple[StagedPlan, PlanSettings]:
    last = tree.copy()
    with_ = last.args["with_"]
    last.set("with_", None)
    recursive = bool(with_.args.get("recursive"))
    stages: list[Stage] = []
    ctes = in_order(with_)
    for nth, cte in enumerate(ctes, 1):
        name = name_of(cte.args["alias"].this)
        if name in settings.given:
            raise SqlError("42712", f'WITH query name "{name}" specified more than once')
        changes = isinstance(cte.this, CHANGES)
        if not changes and not _is_read(name, ctes[nth:], last):
            continue
        plan = planner(_alone(cte, recursive=recursive), settings)
        relation = None
        if plan.columns is None:
            if _is_read(name, ctes[nth:], last):
                raise SqlError("0A000", f'WITH query "{name}" does not have a RETURNING clause')
        else:
            listed = [name_of(one) for one in cte.args["alias"].args.get("columns") or ()]
            if len(listed) > len(plan.columns):
                raise SqlError(
                    "42P10",
                    f'WITH query "{name}" has {len(plan.columns)} columns available '
                    f"but {len(listed)} columns specified",
                )
            relation = given(nth, name, plan.columns, listed)
            settings = replace(settings, given={**settings.given, name: relation})
        stages.append(Stage(name, plan, relation, changes))
        settings = settings.knowing(plan.param_types, cte)
    plan = planner(last, settings)
    stages.append(Stage("", plan, None, isinstance(last, CHANGES)))
    settings = settings.knowing(plan.param_types, last)
    tools = TOOLS if catalog.checks_later else None
    return StagedPlan(tuple(stages), settings.params().types, tools), settings


def _alone(cte: exp.Expression, *, recursive: bool) -> exp.Expression:
    """A WITH query as a statement of its own."""
    query: exp.Expression = cte.this.copy()
    if not recursive or isinstance(query, CHANGES):
        return query
    source = exp.Table(this=cte.args["alias"].this.copy())
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))
    select.set("with_", exp.With(expressions=[cte.copy()], recursive=True))
    return select


def _is_read(name: str, behind: Sequence[exp.Expression], last: exp.Expression) -> bool:
    """Whether a WITH query is read by one behind it or by the statement."""
    return any(
        not table.args.get("db") and isinstance(table.this, exp.Identifier) and name_of(table.this) == name
        for tree in (*behind, last)
        for table in tree.find_all(exp.Table)
    )
