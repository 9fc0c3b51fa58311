"""WITH: common table expressions, recursive ones too.

Each query is bound once; a reference to it in FROM makes a relation of its columns. Of recursive queries it
is seen first which read which, and whether each that reads itself is one that can be run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.bind.nodes import WithQuery
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.casts import castable
from herdpy_sql.expr.syntax import identifier
from herdpy_sql.types import Base, SqlType, need_equality

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from herdpy_sql.bind.binder import Binder
    from herdpy_sql.bind.nodes import Query
    from herdpy_sql.catalog import ColumnOrigin
    from herdpy_sql.expr.scope import Scope


Reference = tuple[str, str]
"""The name of a relation that a query reads, and where: a key of _WHERE, or "" where recursion may be."""

_WHERE = {
    "left": "its non-recursive term",
    "sublink": "a subquery",
    "outer": "an outer join",
    "intersect": "INTERSECT",
    "except": "EXCEPT",
}


def in_order(with_: exp.Expression) -> list[exp.Expression]:
    """The queries of a WITH, each after those that it reads.

    Raises:
        SqlError: 42P19 a query reads itself in a form that cannot be run; 0A000 queries read each other, or
            there is ORDER BY, LIMIT, OFFSET or FOR UPDATE over a recursive UNION.
    """
    ctes = list(with_.expressions)
    if not with_.args.get("recursive"):
        return ctes
    names = [_name(cte) for cte in ctes]
    reads = {_name(cte): [one for one in references(cte.this) if one[0] in names] for cte in ctes}
    found = _sorted(ctes, {name: {one for one, _ in those} - {name} for name, those in reads.items()})
    for cte in found:
        if any(one == _name(cte) for one, _ in reads[_name(cte)]):
            _check(_name(cte), cte.this)
    return found


def _name(cte: Any) -> str:
    return identifier(cte.args["alias"].this)


def _sorted(ctes: Sequence[Any], needs: dict[str, set[str]]) -> list[exp.Expression]:
    left, found = list(ctes), []
    while left:
        names = {_name(cte) for cte in left}
        ready = next((cte for cte in left if not needs[_name(cte)] & names), None)
        if ready is None:
            raise SqlError("0A000", "mutual recursion between WITH items is not implemented")
        left.remove(ready)
        found.append(ready)
    return found


def _check(name: str, query: Any) -> None:
    """SqlError where a query that reads itself is not recursive in the way that can be run."""
    while isinstance(query, (exp.Subquery, exp.Paren)) and not _decoration(query):
        query = query.this
    if isinstance(query, (exp.Insert, exp.Update, exp.Delete, exp.Merge)):
        raise SqlError("42P19", f'recursive query "{name}" must not contain data-modifying statements')
    union = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(union, exp.Union):
        raise SqlError(
            "42P19",
            f'recursive query "{name}" does not have the form non-recursive-term UNION [ALL] recursive-term',
        )
    inner = union.args.get("with_")
    if inner is not None and any(one == name for cte in inner.expressions for one, _ in references(cte.this)):
        raise _misplaced(name, "sublink")
    if any(one == name for one, _ in references(union.this)):
        raise _misplaced(name, "left")
    places = [place for one, place in references(union.expression) if one == name]
    for nth, place in enumerate(places):
        if place:
            raise _misplaced(name, place)
        if nth:
            raise SqlError("42P19", f'recursive reference to query "{name}" must not appear more than once')
    decoration = _decoration(query) or _decoration(union) or _locked(union)
    if decoration:
        raise SqlError("0A000", f"{decoration} in a recursive query is not implemented")


def _misplaced(name: str, place: str) -> SqlError:
    return SqlError("42P19", f'recursive reference to query "{name}" must not appear within {_WHERE[place]}')


def _decoration(node: Any) -> str:
    words = {"order": "ORDER BY", "offset": "OFFSET", "limit": "LIMIT", "locks": "FOR UPDATE/SHARE"}
    return next((word for clause, word in words.items() if node.args.get(clause)), "")


def _locked(union: Any) -> str:
    """The clause of a UNION that the parser gives to its last SELECT, or one of that SELECT itself."""
    last = union.expression
    while isinstance(last, (exp.Subquery, exp.Paren)):
        last = last.this
    return "FOR UPDATE/SHARE" if last.args.get("locks") else ""


# ---------------------------------------------------------------------------- what a query reads


def references(query: Any, place: str = "", hidden: frozenset[str] = frozenset()) -> Iterator[Reference]:
    """The names without a schema that a query reads, but for those of its own WITH queries."""
    hidden, those = _with(query, hidden)
    for cte, seen in those:
        yield from references(cte.this, place, seen)
    if isinstance(query, exp.SetOperation):
        yield from _operation(query, place, hidden)
    elif isinstance(query, exp.Select):
        yield from _select(query, place, hidden)
    elif isinstance(query, (exp.Subquery, exp.Paren)) and isinstance(query.this, exp.Query):
        yield from references(query.this, place, hidden)
        yield from _rest(query, ("this", "with_"), place, hidden)
    else:
        yield from _rest(query, ("with_",), place, hidden)


def _with(query: Any, hidden: frozenset[str]) -> tuple[frozenset[str], list[tuple[Any, frozenset[str]]]]:
    """The names that are a query's own, and its WITH queries with those that are hidden from each."""
    with_ = query.args.get("with_")
    if with_ is None:
        return hidden, []
    those = []
    every = hidden | {_name(cte) for cte in with_.expressions}
    for cte in with_.expressions:
        those.append((cte, every if with_.args.get("recursive") else hidden))
        hidden = hidden | {_name(cte)}
    return every, those


def _operation(query: Any, place: str, hidden: frozenset[str]) -> Iterator[Reference]:
    left = right = place
    if isinstance(query, exp.Except):
        left, right = place or ("" if query.args.get("distinct") else "except"), place or "except"
    elif isinstance(query, exp.Intersect) and not query.args.get("distinct"):
        left = right = place or "intersect"
    yield from references(query.this, left, hidden)
    yield from references(query.expression, right, hidden)
    yield from _rest(query, ("this", "expression", "with_"), place, hidden)


def _select(query: Any, place: str, hidden: frozenset[str]) -> Iterator[Reference]:
    source = query.args.get("from_")
    if source is not None:
        yield from _joined(source.this, query.args.get("joins") or (), place, hidden)
    yield from _rest(query, ("from_", "joins", "with_"), place, hidden)


def _joined(first: Any, joins: Sequence[Any], place: str, hidden: frozenset[str]) -> Iterator[Reference]:
    """An item of FROM and what is joined to it, one after the other; a comma begins anew."""
    sides = [str(join.args.get("side") or "").upper() for join in joins]
    items = [first, *(join.this for join in joins)]
    for nth, item in enumerate(items):
        outer = nth > 0 and sides[nth - 1] in ("LEFT", "FULL")
        for join, side in zip(joins[nth:], sides[nth:], strict=True):
            if _is_comma(join):
                break
            outer = outer or side in ("RIGHT", "FULL")
        yield from _source(item, place or ("outer" if outer else ""), hidden)
    for join in joins:
        yield from _rest(join, ("this",), place, hidden)


def _is_comma(join: Any) -> bool:
    return not any(join.args.get(k) for k in ("kind", "side", "method", "on", "using"))


def _source(item: Any, place: str, hidden: frozenset[str]) -> Iterator[Reference]:
    """One item of FROM, with the joins that are written within it."""
    joins = item.args.get("joins") or ()
    if joins:
        bare = item.copy()
        bare.set("joins", None)
        yield from _joined(bare, joins, place, hidden)
    elif isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
        if not item.args.get("db") and identifier(item.this) not in hidden:
            yield identifier(item.this), place
    elif isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table):
        yield from _source(item.this, place, hidden)
    elif isinstance(item, (exp.Lateral, exp.Subquery)) and isinstance(item.this, exp.Query):
        yield from references(item.this, place, hidden)
    else:
        yield from _rest(item, (), place, hidden)


def _rest(node: Any, but: tuple[str, ...], place: str, hidden: frozenset[str]) -> Iterator[Reference]:
    """What is read in a node's expressions: any query there is a subquery of an expression."""
    for key, value in node.args.items():
        if key in but:
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, exp.Query) and not isinstance(one, exp.Table):
                yield from references(one, "sublink", hidden)
            elif isinstance(one, exp.Table):
                yield from _source(one, place, hidden)
            elif isinstance(one, exp.Expression) and not isinstance(one, exp.Lock):
                yield from _rest(one, (), place, hidden)


def bind_with(binder: Binder, with_: Any, scope: Scope) -> list[WithQuery]:
    """Bind WITH queries, which ``scope`` has the names of then; each after those that it reads."""
    if with_ is None:
        return []
    if with_.args.get("search"):
        raise SqlError("0A000", "SEARCH and CYCLE of recursive queries are not supported")
    recursive = bool(with_.args.get("recursive"))
    binder.is_recursive = binder.is_recursive or recursive
    seen = set()
    for cte in with_.expressions:
        name = _name(cte)
        if name in seen:
            raise SqlError("42712", f'WITH query name "{name}" specified more than once')
        seen.add(name)
    return [_with_query(binder, cte, scope, recursive=recursive) for cte in in_order(with_)]


def _with_query(binder: Binder, cte: Any, scope: Scope, *, recursive: bool) -> WithQuery:
    name = _name(cte)
    listed = [identifier(column) for column in cte.args["alias"].args.get("columns") or ()]
    query = _unwrapped(cte.this)
    if not isinstance(query, exp.Query | exp.Values | exp.Table):
        raise SqlError("0A000", "WITH clause containing a data-modifying statement must be at the top level")
    if recursive and any(one == name for one, _ in references(query)):
        return _recursive(binder, query, scope, name, listed)
    bound = binder.query(query, scope)
    found = WithQuery(name, _columns(name, bound, listed), bound)
    scope.with_queries[name] = found
    return found


def _unwrapped(query: Any) -> Any:
    """VALUES as sqlglot wraps it in WITH: ``SELECT * FROM (VALUES ...) AS _values``."""
    source = query.args.get("from_") if isinstance(query, exp.Select) else None
    if source is not None and isinstance(source.this, exp.Values) and len(query.expressions) == 1:
        alias = source.this.args.get("alias")
        if alias is not None and alias.name == "_values" and isinstance(query.expressions[0], exp.Star):
            return source.this
    return query


def _columns(
    name: str, query: Query, listed: Sequence[str]
) -> list[tuple[str, SqlType, ColumnOrigin | None]]:
    """The columns that references have: names, types and origins."""
    if len(listed) > len(query.outputs):
        raise SqlError(
            "42P10",
            f'WITH query "{name}" has {len(query.outputs)} columns available '
            f"but {len(listed)} columns specified",
        )
    names = [*listed, *(output.name for output in query.outputs[len(listed) :])]
    return [(one, output.type, output.origin) for one, output in zip(names, query.outputs, strict=True)]


def _recursive(binder: Binder, query: Any, scope: Scope, name: str, listed: Sequence[str]) -> WithQuery:
    """A query that reads itself, of the form that :func:`in_order` lets through."""
    while isinstance(query, exp.Subquery | exp.Paren):
        query = query.this
    inner = binder.scope(scope)
    with_ = query.args.get("with_")
    before = bind_with(binder, with_, inner)
    first = binder.query(_unwrapped(query.this), inner)
    columns = [(one, type_, None) for one, type_, _ in _columns(name, first, listed)]
    found = WithQuery(name, [*columns], first, before=before, union=bool(query.args.get("distinct")))
    found.before_recursive = with_ is not None and bool(with_.args.get("recursive"))
    scope.with_queries[name] = found
    found.is_open = True
    step = binder.query(_unwrapped(query.expression), inner, settle=False)
    found.is_open = False
    if len(step.outputs) != len(columns):
        raise SqlError("42601", "each UNION query must have the same number of columns")
    step.settle([type_ for _, type_, _ in columns], binder.params)
    for place, ((_, type_, _), given) in enumerate(zip(columns, step.types, strict=True), 1):
        _check_type(name, place, type_, given)
    for _, type_, _ in columns if found.union else ():
        need_equality(type_)
    found.step = step
    return found


def _check_type(name: str, place: int, type_: SqlType, given: SqlType) -> None:
    """SqlError 42804 where a column of the recursive term is of another type than it has in the other."""
    differs = given.base is not type_.base or (
        given.base is Base.ARRAY
        and (given.element is not type_.element or given.dimensions != type_.dimensions)
    )
    if differs and not castable(given, type_, "implicit"):
        raise SqlError(
            "42804",
            f'recursive query "{name}" column {place} has type {type_.name} in non-recursive term '
            f"but type {given.name} overall",
        )
