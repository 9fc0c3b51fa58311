"""Names of output columns without an alias, as PostgreSQL gives them: of the column, function or type."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.system import casts
from herdpy_sql.system.rewriter import function_name
from herdpy_sql.system_relations import column_types
from herdpy_sql.types import CHAR_BYTE, NAME, OID, Base, SqlType

_TYPES = {'"char"': CHAR_BYTE, "name": NAME, "oid": OID, "xid": SqlType(Base.XID)}
_UNNAMED = "?column?"
_CLASS_NAMES = {
    "GroupConcat": "string_agg", "ArrayAgg": "array_agg", "LogicalAnd": "bool_and", "LogicalOr": "bool_or",
    "CurrentTimestamp": "now", "StrPosition": "strpos", "ExplodingGenerateSeries": "generate_series",
    "GenerateSeries": "generate_series", "Explode": "unnest", "Trim": "btrim", "RowNumber": "row_number",
    "DenseRank": "dense_rank",
}  # fmt: skip


def output_names(tree: exp.Expression) -> list[str | None]:
    """The names of a query's columns; None stands for a star."""
    select = _first_select(tree)
    if select is None:
        return []
    return [None if _is_star(node) else figure(node) for node in select.expressions]


def _first_select(tree: exp.Expression) -> exp.Select | None:
    while isinstance(tree, exp.SetOperation | exp.Subquery | exp.Paren):
        tree = tree.this
    return tree if isinstance(tree, exp.Select) else None


def _is_star(node: exp.Expression) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def figure(node: Any) -> str:
    """The name of one output."""
    return _figure(node)[0] or _UNNAMED


def _figure(node: Any) -> tuple[str, int]:
    """The name, and how sure it is: 2 for columns and functions, 1 for casts and CASE."""
    if isinstance(node, exp.Alias):
        return _identifier(node.args["alias"]), 2
    if isinstance(node, exp.Paren | exp.Collate | exp.Filter | exp.Window):
        return _figure(node.this)
    if isinstance(node, exp.Dot):
        return (
            _figure(node.expression)
            if not isinstance(node.expression, exp.Identifier)
            else (_identifier(node.expression), 2)
        )
    called = function_name(node)
    if called is not None:
        return called, 2
    if isinstance(node, exp.Column):
        return _identifier(node.this), 2
    if isinstance(node, exp.Bracket):
        return _figure(node.this)
    if isinstance(node, exp.Cast):
        name, strength = _figure(node.this)
        if strength > 1:
            return name, strength
        return casts.target_name(node.args["to"]) or node.args["to"].sql("postgres").lower(), 1
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        name, strength = _figure(default) if default is not None else ("", 0)
        return (name, strength) if strength > 1 else ("case", 1)
    if isinstance(node, exp.Exists):
        return "exists", 2
    if isinstance(node, exp.Array):
        return "array", 2
    if isinstance(node, exp.Subquery | exp.Select):
        select = _first_select(node)
        return _figure(select.expressions[0]) if select is not None and select.expressions else ("", 0)
    if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.RegexpLike | exp.RegexpILike):
        return _CLASS_NAMES.get(type(node).__name__, node.sql_name().lower()), 2
    return "", 0


def _identifier(node: Any) -> str:
    if isinstance(node, exp.Identifier) and not node.args.get("quoted"):
        return str(node.this).lower()
    return str(node.this if isinstance(node, exp.Identifier) else node)


def catalog_types(tree: exp.Expression) -> dict[str, SqlType]:
    """The types of columns that DuckDB has other types for, by the name that a query has for them.

    What follows from a column's name alone, and from the names that the query gives to columns.
    """
    found = {name: _TYPES[type_] for name, type_ in column_types().items() if type_ in _TYPES}
    given: dict[str, set[SqlType | None]] = {}
    for alias in tree.find_all(exp.Alias):
        if isinstance(alias.this, exp.Column):
            given.setdefault(alias.alias.lower(), set()).add(found.get(alias.this.name.lower()))
        else:
            given.setdefault(alias.alias.lower(), set()).add(None)
    for name, types in given.items():
        (kind, *others) = types
        if others or kind is None:
            found.pop(name, None)
        else:
            found[name] = kind
    return found


def label(tree: exp.Expression) -> None:
    """Give every unnamed output of an inner SELECT the name that PostgreSQL would, for those outside it."""
    for select in tree.find_all(exp.Select):
        for node in list(select.expressions):
            if isinstance(node, exp.Alias | exp.Column) or _is_star(node):
                continue
            name = figure(node)
            if name != _UNNAMED:
                node.replace(exp.alias_(node.copy(), name, quoted=True))


def name_at(names: list[str | None], shown: list[str], at: int) -> str:
    """The name of column ``at`` of those ``shown`` by DuckDB: stars are as wide as is left for them."""
    if None not in names:
        return names[at] or _UNNAMED if at < len(names) else shown[at]
    first = names.index(None)
    if names.count(None) > 1:
        return shown[at]
    width = len(shown) - (len(names) - 1)
    if at < first:
        return names[at] or _UNNAMED
    if at < first + width:
        return shown[at]
    return names[at - width + 1] or _UNNAMED
