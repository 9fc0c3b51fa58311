"""The plan of a query over the catalog, and which statements are such queries.

Above ``catalog_query``. Of ``plan`` only ``prepare`` comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from herdpy_sql.catalog import Table
from herdpy_sql.execute.base import OutputColumn, Plan, PlanOutcome
from herdpy_sql.expr.syntax import NAMES
from herdpy_sql.expr.typenames import builtin
from herdpy_sql.library import ROUTINES
from herdpy_sql.objects import CatalogObject
from herdpy_sql.plan.scope import name_of
from herdpy_sql.system.catalog_query import (
    RELATION_FUNCTIONS,
    CatalogQuery,
    NamedRelations,
    catalog_query,
    is_common,
    is_word,
)
from herdpy_sql.system_relations import find_relation
from herdpy_sql.values.reg_types import REG_TYPES

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.clock import Clock
    from herdpy_sql.columnar.query import ColumnarQuery
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import View
    from herdpy_sql.types import SqlType


class SystemSelect(Plan):
    """A SELECT over the catalog."""

    tag = "SELECT"
    read_only = True
    engine = "columnar"

    def __init__(self, query: CatalogQuery) -> None:
        self.source = query
        self.columns: tuple[OutputColumn, ...] = query.columns
        self.param_types = query.param_types

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if source is None:
            raise ValueError("a plan over the catalog is given the answer of its source")
        return PlanOutcome(None, source.num_rows, source)

    def within(self, param_types: Sequence[SqlType]) -> Plan:
        query = self.source
        return SystemSelect(replace(query, query=replace(query.query, param_types=tuple(param_types))))

    def moved(self, catalog: Catalog) -> SystemSelect | None:
        query = self.source.moved(catalog)
        return None if query is None else SystemSelect(query)

    def explain(self) -> list[str]:
        read = [relation.label for relation in self.source.relations]
        read += [scan.name for scan in self.source.scans]
        return ["System Catalog Query", *(f"  -> Scan on {name}" for name in read)]


def system_select(
    tree: exp.Expression,
    catalog: Catalog,
    param_types: Sequence[SqlType] = (),
    targets: Sequence[SqlType | None] | None = None,
) -> SystemSelect:
    """The plan of a query over the catalog. SqlError 42P01, 42703, 42883, 0A000 and so on."""
    return SystemSelect(catalog_query(tree, catalog, param_types, targets))


class SystemStatement(NamedRelations):
    """A statement over the catalog that is bound elsewhere: UPDATE, DELETE or INSERT."""

    def plan(self, query: ColumnarQuery) -> SystemSelect:
        """The plan of the query for what the statement needs."""
        return SystemSelect(self.query(query))


def concerns(tree: exp.Expression, catalog: Catalog) -> bool:
    """Whether a query is one over the catalog, or about the server: by what its names mean."""
    return any(_is_of_system(node, catalog) for node in tree.walk())


def _is_of_system(node: Any, catalog: Catalog) -> bool:
    if isinstance(node, exp.Table):
        return _is_relation(node, catalog)
    if isinstance(node, exp.Cast):
        to = node.args["to"]
        while isinstance(to, exp.DataType) and to.this is exp.DataType.Type.ARRAY and to.expressions:
            to = to.expressions[0]
        found = builtin(to) if isinstance(to, exp.DataType | exp.ObjectIdentifier) else None
        return found is not None and found.base in REG_TYPES
    if isinstance(node, exp.Column):
        return is_word(node)
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else NAMES.get(type(node), "")
    return any(one.context for one in ROUTINES.get(name, ()))


def _is_relation(node: exp.Table, catalog: Catalog) -> bool:
    """Whether an item of FROM is a system relation, or a sequence, which is a relation of one row."""
    if not isinstance(node.this, exp.Identifier):
        called = node.this
        return isinstance(called, exp.Anonymous) and called.name.lower() in RELATION_FUNCTIONS
    name, given = name_of(node.this), node.args.get("db")
    if given is None and is_common(node, name):
        return False
    schema = None if given is None else name_of(given)
    own = catalog.find(schema, name)
    if isinstance(own, CatalogObject) and own.kind == "sequence":
        return True
    return find_relation(schema, name) is not None and (schema is not None or not isinstance(own, Table))
