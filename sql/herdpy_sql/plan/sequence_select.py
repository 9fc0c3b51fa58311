"""Functions of sequences in queries that the columnar engine answers: called over its rows.

DuckDB knows nothing of sequences. Where such a call is an item of the SELECT list, its arguments take its
place in the query that is asked, and the call is made here for each row of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn, Plan, PlanOutcome
from herdpy_sql.execute.insert import datum_rows
from herdpy_sql.expr.calls import SEQUENCE_FUNCTIONS
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.syntax import is_regclass
from herdpy_sql.sequences import owned_by, split_name
from herdpy_sql.types import BIGINT

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import Clock, View


def _is_call(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in SEQUENCE_FUNCTIONS


def takes_from_sequences(tree: exp.Expression) -> bool:
    """Whether a function of sequences is anywhere in it."""
    return any(_is_call(node) for node in tree.find_all(exp.Anonymous))


def settle_calls(tree: exp.Expression, catalog: Catalog) -> None:
    """Have the functions name their sequences by plain texts: no regclass, no pg_get_serial_sequence."""
    for call in tree.find_all(exp.Anonymous):
        if not _is_call(call) or not call.expressions:
            continue
        name = call.expressions[0]
        if is_regclass(name):
            name = name.this
        if isinstance(name, exp.Anonymous) and str(name.this).lower() == "pg_get_serial_sequence":
            name = _serial(name, catalog)
        if name is not call.expressions[0]:
            call.set("expressions", [name, *call.expressions[1:]])


def _serial(node: exp.Anonymous, catalog: Catalog) -> exp.Expression:
    """The sequence of a column, named by literals; the very node for what only a query can say."""
    args = node.expressions
    if len(args) != 2 or not all(isinstance(arg, exp.Literal) and arg.is_string for arg in args):
        return node
    schema, name = split_name(str(args[0].this))
    table = catalog.find(schema, name)
    if not isinstance(table, Table):
        raise SqlError("42P01", f'relation "{args[0].this}" does not exist')
    position = table.positions.get(str(args[1].this))
    if position is None:
        raise SqlError("42703", f'column "{args[1].this}" of relation "{name}" does not exist')
    found = owned_by(catalog, table, position)
    return exp.Literal.string(str(found[0].oid)) if found else exp.Null()


@dataclass(frozen=True)
class _Item:
    """An item of the SELECT list: columns of the answer from ``first`` on, and what is called with them."""

    first: int
    count: int
    call: str | None


class SequenceSelect(Plan):
    """A query over whose rows functions of sequences are called."""

    tag = "SELECT"
    engine = "columnar"

    def __init__(self, query: Plan, items: tuple[_Item, ...], columns: tuple[OutputColumn, ...]) -> None:
        self.query = query
        self.items = items
        self.columns = columns
        self.source = query.source
        self.param_types = query.param_types
        self.engine = query.engine
        self.read_only = not any(item.call in {"nextval", "setval"} for item in items)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        found = self.query.run(view, params, clock, source)
        rows = found.rows
        if rows is None:
            rows = datum_rows(found.table, self.query.columns or ())
        made = [self._row(row, clock) for row in rows]
        return PlanOutcome(made, len(made))

    def _row(self, row: Row, clock: Clock) -> Row:
        values: list[object] = []
        for item in self.items:
            args = row[item.first : item.first + item.count]
            if item.call is None:
                values += args
            elif None in args:
                values.append(None)
            elif item.call == "setval" and item.count == 2:
                values.append(clock.sequences.setval(*args, True))  # type: ignore[union-attr, arg-type, call-arg]
            else:
                values.append(getattr(clock.sequences, item.call)(*args))
        return tuple(values)  # type: ignore[arg-type]

    def explain(self) -> list[str]:
        calls = ", ".join(item.call for item in self.items if item.call is not None)
        return [f"Call of {calls}", *(f"  -> {line}" for line in self.query.explain())]


def sequence_select(tree: exp.Expression, planned: Callable[[exp.Expression], Plan], reason: str) -> Plan:
    """The plan of such a query; SqlError 0A000 where a call is not an item of the outermost SELECT list."""
    refused = SqlError("0A000", f"functions of sequences are not supported within a query with {reason}")
    if not isinstance(tree, exp.Select) or tree.args.get("distinct"):
        raise refused
    tree = tree.copy()
    items: list[_Item] = []
    outputs: list[exp.Expression] = []
    names: list[str | None] = []
    for node in tree.expressions:
        inner = node.this if isinstance(node, exp.Alias) else node
        if not _is_call(inner):
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
            ):
                raise refused
            items.append(_Item(len(outputs), 1, None))
            names.append(None)
            outputs.append(node)
            continue
        call = str(inner.this).lower()
        items.append(_Item(len(outputs), len(inner.expressions), call))
        names.append(node.alias if isinstance(node, exp.Alias) else output_name(node))
        if len(inner.expressions) not in {len(one) for one in SEQUENCE_FUNCTIONS[call]}:
            raise SqlError("42883", f"function {call} does not exist with {len(inner.expressions)} arguments")
        for place, arg in enumerate(inner.expressions):
            kind = ("text", "bigint", "boolean")[place]
            outputs.append(exp.Cast(this=arg, to=exp.DataType.build(kind, dialect="postgres")))
    if not outputs:
        outputs = [exp.Literal.number(1)]
    tree.set("expressions", outputs)
    if takes_from_sequences(tree):
        raise refused
    query = planned(tree)
    given = query.columns or ()
    columns = tuple(
        given[item.first] if name is None else OutputColumn(name, BIGINT)
        for item, name in zip(items, names, strict=True)
    )
    return SequenceSelect(query, tuple(items), columns)
