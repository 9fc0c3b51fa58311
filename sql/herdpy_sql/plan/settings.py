"""The settings of planning: the engine that is asked for, and the types of parameters that are known.

``prepare`` makes a :class:`PlanSettings` of its arguments; what binds a statement gets it, and passes it on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sqlglot import expressions as exp

from herdpy_sql.expr import Params
from herdpy_sql.types import UNKNOWN, Base

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.expr.coerce import ProgramNames
    from herdpy_sql.given import Given
    from herdpy_sql.types import SqlType

    SystemQuery = Callable[
        [exp.Expression, Catalog, Sequence[SqlType], Sequence[SqlType | None] | None], Plan | None
    ]

    FindSystem = Callable[[exp.Expression, Catalog, Iterable[exp.Expression]], "SystemParts | None"]

Engine = Literal["auto", "own", "columnar"]


class SystemParts(Protocol):
    """A statement that changes rows and names what is the system's.

    Attributes:
        tree: the statement; it names what is handed over.
        given: what is handed over with its query, by name.
    """

    tree: exp.Expression
    given: dict[str, Given]

    def plan(self, query: Any) -> Plan:
        """The plan of the query for what the statement needs, as ``columnar`` has emitted it."""


def _no_system_parts(
    tree: exp.Expression, catalog: Catalog, parts: Iterable[exp.Expression]
) -> SystemParts | None:
    del tree, catalog, parts
    return None


def _no_system_query(
    tree: exp.Expression,
    catalog: Catalog,
    param_types: Sequence[SqlType],
    targets: Sequence[SqlType | None] | None,
) -> Plan | None:
    del tree, catalog, param_types, targets
    return None


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What of a session bears on planning.

    Attributes:
        engine: "auto", or one engine by force (0A000 where it cannot).
        scan_only: no access path but the full scan, for tests that compare.
        verbose: the plan keeps the typed trees that EXPLAIN (VERBOSE) prints, of columnar queries too.
        given: what WITH queries that change data give to the statement, by their names.
        system_query: the plan of a query with these types of parameters and targets where it is about the
            system catalog, else None.
        system_parts: the statement, if those parts of it are about the system catalog, else None.
        names: of the program that the statement is part of; None elsewhere.
    """

    engine: Engine = "auto"
    scan_only: bool = False
    param_types: tuple[SqlType, ...] = ()
    given: Mapping[str, Given] = field(default_factory=dict)
    system_query: SystemQuery = _no_system_query
    system_parts: FindSystem = _no_system_parts
    verbose: bool = False
    names: ProgramNames | None = None

    def params(self) -> Params:
        """A fresh collector of parameters' types."""
        return Params(self.param_types, names=self.names)

    def knowing(self, types: Sequence[SqlType], *trees: exp.Expression | None) -> PlanSettings:
        """These settings for what is planned next, after ``trees`` have given their parameters ``types``.

        Where no place has decided, ``types`` has TEXT: of a parameter that is in none of the trees, this says
        nothing, so what comes next decides.
        """
        within = {int(one.name) for tree in trees if tree is not None for one in tree.find_all(exp.Parameter)}
        found = list(self.param_types) + [UNKNOWN] * (len(types) - len(self.param_types))
        for number, one in enumerate(types, 1):
            if number in within and found[number - 1].base is Base.UNKNOWN:
                found[number - 1] = one
        return replace(self, param_types=tuple(found))
