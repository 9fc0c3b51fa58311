"""DuckDB's text of FROM: tables, samples of them, joins, derived tables, LATERAL, functions as tables.

Each item of ``bind.nodes`` becomes a text; the columns of its relations get their forms (``Emission.forms``),
so that expressions find them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from herdpy_sql.bind import nodes as q
from herdpy_sql.columnar import emit
from herdpy_sql.columnar.bounds import PartitionChoice
from herdpy_sql.columnar.emission import EmittedScan
from herdpy_sql.columnar.emit import Emitter
from herdpy_sql.columnar.set_returning import element, listed
from herdpy_sql.duck import INTEGERS, Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.library import Resolved
from herdpy_sql.types import BIGINT, TEXT, Base, SqlType
from herdpy_sql.values.reg_types import REG_TYPES

if TYPE_CHECKING:
    from herdpy_sql.columnar.emission import Emission
    from herdpy_sql.expr.scope import Relation
    from herdpy_sql.partition_map import PartitionMap


def emit_from(emission: Emission, items: Sequence[q.Item]) -> str:
    """The text of FROM's items, empty without one."""
    return ", ".join([_item(emission, item) for item in items])


def _item(emission: Emission, item: q.Item) -> str:
    return _ITEMS[type(item)](emission, item)


# ---------------------------------------------------------------------------- tables

_TWO_TO_53 = 1 << 53


def _scan(emission: Emission, item: q.TableScan) -> str:
    scan = EmittedScan(f"s{len(emission.scans)}", emission.alias(), item)
    emission.scans.append(scan)
    if item.spread is not None:
        return f"{_partitions(emission, scan, item, item.spread)} AS {scan.alias}"
    source = scan.name if item.sample is None else _sampled(emission, scan, item.sample)
    return f"{source} AS {scan.alias}"


def _partitions(emission: Emission, scan: EmittedScan, item: q.TableScan, spread: PartitionMap) -> str:
    """The rows of all partitions that may have any; parameters rule out more when the query runs."""
    if item.sample is not None:
        raise SqlError(
            "0A000", "TABLESAMPLE of a partitioned table is not supported", table=spread.table.name
        )
    choice = PartitionChoice.of(spread, item.bounded, emission.params.types)
    if choice.range.of_parameters:
        scan.parts, scan.chosen = spread.partitions, choice
    else:
        scan.parts = choice.chosen(())
    if not scan.parts:
        return scan.name  # the table itself, which has no rows
    return f"({' UNION ALL '.join(f'SELECT * FROM {name}' for name, _ in scan.sources)})"


def _sampled(emission: Emission, scan: EmittedScan, sample: q.TableSample) -> str:
    """A scan's DuckDB text with only the sample's rows."""
    share = emit.emit(emission, sample.share).sql
    part = (
        f"CASE WHEN {share} BETWEEN 0 AND 100 THEN {share} / 100 WHEN {share} IS NULL"
        " THEN error('SQLSTATE 2202H: TABLESAMPLE parameter cannot be null')"
        " ELSE error('SQLSTATE 2202H: sample percentage must be between 0 and 100') END"
    )
    drawn = "random()"
    if sample.seed is not None:
        seed = emit.emit(emission, sample.seed).sql
        keys = ", ".join(f"c{scan.use(position)}" for position in scan.scan.table.key_positions)
        drawn = f"(hash({keys}, {seed}) >> 11) / CAST({_TWO_TO_53} AS DOUBLE)"
    return f"(SELECT * FROM {scan.name} WHERE {drawn} < {part})"


# ---------------------------------------------------------------------------- queries


def _reference(emission: Emission, item: q.Reference) -> str:
    name, columns = emission.name_of(item.named)
    alias = emission.alias()
    _derive(emission, item.relation, alias, columns)
    return f"{name} AS {alias}"


def _derived(emission: Emission, item: q.Derived) -> str:
    found = emission.query(item.query, mixed=True)
    alias = emission.alias()
    _derive(emission, item.relation, alias, found.columns)
    return f"{'LATERAL ' if item.lateral else ''}({found.sql}) AS {alias}({found.names()})"


def _derive(emission: Emission, relation: Relation, alias: str, columns: Sequence[Typed]) -> None:
    """Columns that a query under ``alias`` has made."""
    for i, column in enumerate(columns):
        scale = f"{alias}.s{i}" if column.scale_sql is not None else None
        form = Typed(f"{alias}.c{i}", column.type, column.dec, scale, array=column.array)
        emission.forms[relation.base + i] = form


def _enclosed(emission: Emission, item: q.Enclosed) -> str:
    return f"({_item(emission, item.inner)})"


# ---------------------------------------------------------------------------- functions as tables


def _rows(emission: Emission, item: q.Rows) -> str:
    if len(item.calls) > 1:
        return _side_by_side(emission, item)
    (call,) = item.calls
    if call.found is not None:
        return _library(emission, item, call, call.found)
    if isinstance(call.expr, n.SetOf) and call.expr.name == "generate_series":
        return _series(emission, item, call, call.expr)
    return _side_by_side(emission, item)


def _series(emission: Emission, item: q.Rows, call: q.FunctionCall, expr: n.SetOf) -> str:
    found = listed(Emitter(emission), call)
    in_steps = not item.numbered and _is_counted(expr)
    one = element(found, "n" if in_steps else f"unnest({found.sql})")
    items = f"{one.sql} AS c0"
    if item.numbered:
        items += f", CAST(generate_subscripts({found.sql}, 1) AS BIGINT) AS c1"
    if in_steps:
        items += f" FROM generate_{found.sql.removeprefix('pg_')} AS s (n)"
    return _shown(emission, item, f"SELECT {items}", [Typed("", one.type)])


def _is_counted(expr: n.SetOf) -> bool:
    """Whether a series is one of integers between ends that no row decides, by steps that are not 0."""
    if expr.type.base not in INTEGERS or not all(map(_is_given, expr.args[:2])):
        return False
    return len(expr.args) < 3 or (isinstance(expr.args[2], n.Const) and bool(expr.args[2].value))


def _is_given(expr: n.Expr) -> bool:
    """Whether a value is in the statement's text or among its parameters."""
    while isinstance(expr, n.Cast):
        expr = expr.arg
    return isinstance(expr, n.Const | n.Param)


def _library(emission: Emission, item: q.Rows, call: q.FunctionCall, found: Resolved) -> str:
    """A function of the library as a table: its rows, or the one row that it gives."""
    whole = listed(Emitter(emission), call)
    items = f"unnest({whole.sql}) AS c"
    if item.numbered:
        items += f", CAST(generate_subscripts({whole.sql}, 1) AS BIGINT) AS n"
    outputs: list[str] = []
    forms: list[Typed] = []
    fields = found.routine.columns
    for i, type_ in enumerate([type_ for _, type_ in fields] or [call.type]):
        outputs.append(f"{_field(emission, i, type_) if fields else 'c'} AS c{i}")
        array = type_.dimensions if type_.base is Base.ARRAY else 0
        forms.append(Typed("", type_.element_type if array else type_, array=array))
    if item.numbered:
        outputs.append(f"n AS c{len(outputs)}")
    return _shown(emission, item, f"SELECT {', '.join(outputs)} FROM (SELECT {items})", forms)


def _field(emission: Emission, place: int, type_: SqlType) -> str:
    """A field of a row, which is the list of its fields' texts; that of an object's name is its datum."""
    one = Typed(f"c[{place + 1}]", TEXT)
    if type_ == TEXT or type_.base in REG_TYPES:
        return one.sql
    return emit.invoke(emission, Resolved("cast", 0, (TEXT,), type_), [one]).sql


def _side_by_side(emission: Emission, item: q.Rows) -> str:
    """Several calls, row by row."""
    found = [listed(Emitter(emission), call) for call in item.calls]
    forms = [element(one, f"unnest({one.sql})") for one in found]
    items = [f"{form.sql} AS c{i}" for i, form in enumerate(forms)]
    if item.numbered:
        most = f"greatest({', '.join(f'len({one.sql})' for one in found)}, 0)"
        items.append(f"unnest(range(1, {most} + 1)) AS c{len(found)}")
    return _shown(emission, item, f"SELECT {', '.join(items)}", forms)


def _shown(emission: Emission, item: q.Rows, sql: str, forms: Sequence[Typed]) -> str:
    """The query under an alias; its columns are of these forms, and the number of the row is the last."""
    alias = emission.alias()
    for i, form in enumerate([*forms, Typed("", BIGINT)] if item.numbered else forms):
        column = Typed(f"{alias}.c{i}", form.type, form.dec, array=form.array)
        emission.forms[item.relation.base + i] = column
    return f"({sql}) AS {alias}"


# ---------------------------------------------------------------------------- joins


def _joined(emission: Emission, item: q.Joined) -> str:
    left, right = _item(emission, item.left), _item(emission, item.right)
    if not item.conditions:
        return f"{left} CROSS JOIN {right}"
    texts = [emit.emit(emission, condition).sql for condition in item.conditions]
    on = texts[0] if len(texts) == 1 else " AND ".join(f"({text})" for text in texts)
    return f"{left} {item.side} JOIN {right} ON {on}" if item.side else f"{left} JOIN {right} ON {on}"


_ITEMS: dict[type[q.Item], Callable[[Emission, Any], str]] = {
    q.TableScan: _scan,
    q.Reference: _reference,
    q.Derived: _derived,
    q.Enclosed: _enclosed,
    q.Rows: _rows,
    q.Joined: _joined,
}
