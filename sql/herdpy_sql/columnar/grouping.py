"""GROUP BY: what is grouped, and what may stand outside aggregates."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import emit, trees
from herdpy_sql.columnar import scope as scopes
from herdpy_sql.columnar.comparisons import order_key
from herdpy_sql.columnar.routines import full_type
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import identifier
from herdpy_sql.types import need_equality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.columnar.binder import Binder
    from herdpy_sql.columnar.scope import Scope
    from herdpy_sql.duck import Typed

MAX_SETS = 4096
"""Grouping sets of one GROUP BY, as PostgreSQL has it."""


@dataclass(slots=True)
class Groups:
    """A bound GROUP BY: its DuckDB items; ``simple`` when there are no grouping sets."""

    items: list[str]
    simple: bool

    def text(self, extra: Sequence[str]) -> str:
        """The clause, with columns that the primary key determines."""
        return ", ".join([*self.items, *extra]) or "()"


def bind_group(binder: Binder, node: Any, group: Any, scope: Scope) -> Groups:
    """Bind the clause and tell the scope which expressions are grouped."""
    scope.clause = "GROUP BY"
    if group.args.get("totals"):
        raise SqlError("0A000", "this form of GROUP BY is not supported")
    items, simple = [], True
    groups: set[str] = set()
    listed = [*group.expressions]
    for key in ("grouping_sets", "rollup", "cube"):
        listed += group.args.get(key) or []
    if group.args.get("all") is False:  # GROUP BY DISTINCT
        listed = different(listed)
    for item in listed:
        text, plain = _item(binder, node, item, scope, groups)
        items.append(text)
        simple = simple and plain
    scope.groups = groups
    scope.grouped = True
    scope.clause = "SELECT"
    return Groups(items, simple)


def different(items: list[Any]) -> list[Any]:
    """GROUP BY DISTINCT as GROUPING SETS, of which none stands twice."""
    if not any(isinstance(item, (exp.GroupingSets, exp.Rollup, exp.Cube)) for item in items):
        return items
    found: dict[frozenset[str], Any] = {}
    for chosen in itertools.product(*(_sets(item) for item in items)):
        kept = {node.sql("postgres"): node for part in chosen for node in part}
        found.setdefault(frozenset(kept), exp.Tuple(expressions=[node.copy() for node in kept.values()]))
        if len(found) > MAX_SETS:
            raise SqlError("54011", f"too many grouping sets present (maximum {MAX_SETS})")
    return [exp.GroupingSets(expressions=list(found.values()))]


def _sets(item: Any) -> list[list[Any]]:
    """The grouping sets of one item: lists of expressions."""
    if isinstance(item, exp.GroupingSets):
        return [one for part in item.expressions for one in _sets(part)]
    if isinstance(item, exp.Rollup):
        parts = [_sets(part)[0] for part in item.expressions]
        return [_flattened(parts[:n]) for n in range(len(parts), -1, -1)]
    if isinstance(item, exp.Cube):
        parts = [_sets(part)[0] for part in item.expressions]
        if len(parts) > 12:
            raise SqlError("54011", "CUBE is limited to 12 elements")
        some = [itertools.combinations(parts, n) for n in range(len(parts), -1, -1)]
        return [_flattened(one) for of_length in some for one in of_length]
    return [list(item.expressions) if isinstance(item, exp.Tuple) else [item]]


def _flattened(parts: Sequence[list[Any]]) -> list[Any]:
    return [node for part in parts for node in part]


def _item(binder: Binder, node: Any, item: Any, scope: Scope, groups: set[str]) -> tuple[str, bool]:
    words = {exp.GroupingSets: "GROUPING SETS", exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}
    word = words.get(type(item))
    if word is not None:
        parts = [_item(binder, node, part, scope, groups)[0] for part in item.expressions]
        return f"{word} ({', '.join(parts)})", False
    if isinstance(item, exp.Tuple):
        parts = [_item(binder, node, part, scope, groups)[0] for part in item.expressions]
        return f"({', '.join(parts)})", bool(parts)
    return _expression(binder, node, item, scope, groups), True


def _expression(binder: Binder, node: Any, item: Any, scope: Scope, groups: set[str]) -> str:
    inner = item
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Literal) and not inner.is_string and str(inner.this).isdigit():
        place = int(inner.this)
        outputs = _flat(node, scope)
        if not 1 <= place <= len(outputs):
            raise SqlError("42P10", f"GROUP BY position {place} is not in select list")
        inner = outputs[place - 1]
    elif isinstance(inner, exp.Column) and not inner.args.get("table"):
        # An input column goes before an output column of the same name.
        name = identifier(inner.this)
        if not any(c.name == name for c in scope.star):
            aliased = [
                e.this
                for e in node.expressions
                if isinstance(e, exp.Alias) and identifier(e.args["alias"]) == name
            ]
            if aliased:
                inner = aliased[0]
    tree, x = trees.bound(binder, inner, scope)
    binder.note("Group by:", tree)
    x = emit.settle_text(binder, x)
    if x.agg:
        raise SqlError("42803", "aggregate functions are not allowed in GROUP BY")
    if x.window:
        raise SqlError("42P20", "window functions are not allowed in GROUP BY")
    need_equality(full_type(x))
    groups.add(x.sql)
    if not x.vars and not x.is_text_numeric:
        return order_key(x)
    return f"pg_numnorm({x.sql})" if x.is_text_numeric else x.sql


def _flat(node: Any, scope: Scope) -> list[Any]:
    """Output expressions with stars expanded, for ordinals."""
    out: list[Any] = []
    for item in node.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Star):
            out += [_reference(c) for c in scope.star]
        elif isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
            found = scope.relation(identifier(inner.args["table"]))
            out += [_reference(c) for c in found[1].columns] if found else []
        else:
            out.append(inner)
    return out


def _reference(col: scopes.Col) -> exp.Column:
    table = exp.to_identifier(col.rel.name, quoted=True) if col.rel is not None and col.rel.name else None
    return exp.Column(this=exp.to_identifier(col.name, quoted=True), table=table)


def check(scope: Scope, parts: Sequence[Typed], *, simple: bool) -> list[str]:
    """Columns to group by as well because a grouped primary key determines them; else 42803."""
    extra: dict[str, None] = {}
    for part in parts:
        for number, text, _ in part.vars:
            if number != scope.number or text in scope.groups or text in extra:
                continue
            alias = text.partition(".")[0]
            rel = next((r for r in scope.rels if r.alias == alias), None)
            if rel is not None and rel.table is not None and simple and _keyed(scope, rel):
                extra[text] = None
                continue
            raise ungrouped(scope, text)
    return list(extra)


def _keyed(scope: Scope, rel: scopes.Rel) -> bool:
    table = rel.table
    assert table is not None
    assert rel.scan is not None
    places = rel.scan.positions
    return (
        bool(table.key)
        and not table.has_hidden_key
        and all(p in places and f"{rel.alias}.c{places[p]}" in scope.groups for p in table.key_positions)
    )


def ungrouped(scope: Scope, text: str) -> SqlError:
    """42803 in PostgreSQL's words."""
    name = text
    for rel in scope.rels:
        for col in rel.columns:
            if col.sql == text:
                name = f"{rel.name}.{col.name}" if rel.name else col.name
    return SqlError(
        "42803", f'column "{name}" must appear in the GROUP BY clause or be used in an aggregate function'
    )


__all__ = ["Groups", "bind_group", "check", "replace"]
