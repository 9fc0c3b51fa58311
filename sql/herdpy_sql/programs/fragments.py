"""SQL in a program, planned with the program's names as its parameters, and kept with the program.

Above ``variables`` and the planner, below ``interpreter``. What was planned is valid for one catalog, and for
the columns that the records had which it names; else it is planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.query import SelectPlan
from herdpy_sql.parse import split
from herdpy_sql.plan import prepare
from herdpy_sql.programs.variables import Names, StatementNames, UsedRecord

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.parse import Statement
    from herdpy_sql.plan import Engine, Plan
    from herdpy_sql.programs.syntax import Fragment
    from herdpy_sql.types import SqlType

_VARIANTS = 4
"""So many plans are kept of one fragment, of catalogs and columns of records."""


@dataclass(eq=False, slots=True)
class Planned:
    """One statement of a program, planned.

    Attributes:
        records: those whose columns it was planned with.
        project: of a query without FROM, what gives its one row; None of anything else.
        kept: for whoever runs it.
    """

    statement: Statement
    catalog: Catalog
    plan: Plan
    names: StatementNames
    records: Sequence[UsedRecord]
    project: Callable[[Any, Any, Any], Any] | None
    kept: Any = None

    def values(self, names: Names) -> tuple[Datum, ...]:
        """Its parameters as of now."""
        return tuple([names.get(path) for path in self.names.paths])

    def is_for(self, catalog: Catalog, names: Names) -> bool:
        """Whether it may be run under this catalog, with the records as they are."""
        if self.catalog is not catalog:
            return False
        for one in self.records:
            found = names.find(one.path)
            if found is None or getattr(found[0], "row", None) != one.row:
                return False
        return True

    def again(self, catalog: Catalog, engine: Engine = "auto") -> Plan:
        """Its plan under another catalog, or for another engine, with the same parameters. SqlError."""
        return prepare(self.statement, catalog, engine=engine, names=self.names)


def planned(
    fragment: Fragment,
    catalog: Catalog,
    names: Names,
    numbered: Sequence[Any] = (),
    *,
    prefers_columns: bool = False,
) -> Planned:
    """A fragment, planned for this catalog. SqlError as planning raises."""
    kept: list[Planned] = fragment.kept.setdefault("plans", [])  # type: ignore[assignment]
    for one in kept:
        if one.is_for(catalog, names):
            return one
    made_of = StatementNames(names, numbered, prefers_columns=prefers_columns)
    made = plan_statement(fragment.text, catalog, made_of)
    if len(kept) >= _VARIANTS:
        kept.clear()
    kept.append(made)
    return made


def plan_statement(text: str, catalog: Catalog, names: StatementNames) -> Planned:
    """A statement of a program. SqlError 42601 for more than one, and as planning raises."""
    statements = split(text)
    if len(statements) != 1:
        raise SqlError("42601", "syntax error: there must be one statement")
    try:
        plan = prepare(statements[0], catalog, names=names)
    except SqlError as error:
        error.position = None
        raise
    names.let_go()
    return Planned(statements[0], catalog, plan, names, tuple(names.records), _project_of(plan))


def _project_of(plan: Plan) -> Callable[[Any, Any, Any], Any] | None:
    """What gives the row of a query without FROM and conditions."""
    if type(plan) is not SelectPlan or plan.pipeline.steps or plan.pipeline.condition is not None:
        return None
    return plan.project if plan.limit is None and plan.offset is None and not plan.sort else None


def dynamic(text: str, catalog: Catalog, types: Sequence[SqlType]) -> Planned:
    """A statement that a program has made, with the types of what USING gives for $1, $2 ..."""
    numbered = [((f"${at}",), type_) for at, type_ in enumerate(types, 1)]
    return plan_statement(text, catalog, StatementNames(None, numbered))
