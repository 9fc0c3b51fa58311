"""FROM in the columnar engine: tables, samples of them, joins, derived tables, LATERAL, functions as tables.

Each item of FROM comes in as a syntax tree, with the items to its left for LATERAL, and becomes a
``FromItem``: DuckDB text, the relations it names and the columns that ``*`` means. Relations are added to
the scope last, so that no item sees its neighbours unless it is LATERAL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.catalog import ColumnOrigin, Table
from herdpy_sql.columnar import casts, emit, set_returning, trees
from herdpy_sql.columnar import scope as scopes
from herdpy_sql.columnar.bounds import note_bounds
from herdpy_sql.columnar.emit import comparable, unify
from herdpy_sql.columnar.routines import full_type, types_of
from herdpy_sql.columnar.scope import Col, FromItem, Rel, ScanNeeds, Scope, from_column
from herdpy_sql.columnar.set_returning import rows_from, several_arrays
from herdpy_sql.columnar.with_queries import derived
from herdpy_sql.duck import INTEGERS, Typed, elements
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.syntax import identifier, named_call
from herdpy_sql.library import Resolved, resolve
from herdpy_sql.objects import VIEW
from herdpy_sql.types import BIGINT, TEXT, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder


_METHODS = ("BERNOULLI", "SYSTEM")
_DOUBLE = SqlType(Base.DOUBLE)
_TWO_TO_53 = 1 << 53


def sampled(binder: Binder, scan: ScanNeeds, sample: Any) -> str:
    """A scan's DuckDB text with only the sample's rows.

    Raises SqlError 42704 for other methods, 2202H and 2202G for a share or seed that cannot be.
    """
    method = sample.args.get("method")
    word = str(method.this).upper() if method is not None else ""
    if word not in _METHODS:
        raise SqlError("42704", f"tablesample method {word.lower()} does not exist")
    share = _number(binder, sample.args.get("percent") or sample.args.get("size"), "2202H")
    part = (
        f"CASE WHEN {share} BETWEEN 0 AND 100 THEN {share} / 100 WHEN {share} IS NULL"
        " THEN error('SQLSTATE 2202H: TABLESAMPLE parameter cannot be null')"
        " ELSE error('SQLSTATE 2202H: sample percentage must be between 0 and 100') END"
    )
    drawn = "random()"
    if sample.args.get("seed") is not None:
        seed = _number(binder, sample.args["seed"], "2202G")
        table = scan.table
        keys = ", ".join(f"c{scan.use(position)}" for position in table.key_positions)
        drawn = f"(hash({keys}, {seed}) >> 11) / CAST({_TWO_TO_53} AS DOUBLE)"
    return f"(SELECT * FROM {scan.name} WHERE {drawn} < {part})"


def _number(binder: Binder, node: Any, state: str) -> str:
    """A constant or parameter of the clause; columns are not in its reach."""
    if isinstance(node, exp.Null):
        what = "REPEATABLE parameter" if state == "2202G" else "parameter"
        raise SqlError(state, f"TABLESAMPLE {what} cannot be null")
    return emit.coerce(binder, binder.bind(node, Scope(0, None)), _DOUBLE).sql


def bind_series(
    binder: Binder, node: Any, own: str | None, listed: list[str], scope: Scope, ordinality: bool = False
) -> FromItem:
    """generate_series under an alias, WITH ORDINALITY if asked; SqlError 42883 for other functions."""
    if not isinstance(node, (exp.GenerateSeries, exp.ExplodingGenerateSeries)):
        if isinstance(node, exp.Dot):
            raise SqlError("0A000", f"names of other databases are not supported: {node.sql('postgres')}")
        named = named_call(node)
        if named is not None:
            return _library(binder, *named, own, listed, scope, ordinality=ordinality)
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
        raise SqlError(
            "42883" if isinstance(node, (exp.ReadCSV, exp.ReadParquet, exp.Anonymous)) else "0A000",
            f"function {name} does not exist",
        )
    found = set_returning.series(binder, node, scope)
    alias = binder.alias()
    rel = Rel(own or "generate_series", alias, [])
    in_steps = not ordinality and _is_counted(node, found)
    one = set_returning.element(found, "n" if in_steps else f"unnest({found.sql})")
    items = f"{one.sql} AS c0"
    first = listed[0] if listed else own or "generate_series"
    rel.columns = [Col(first, f"{alias}.c0", one.type, position=0, rel=rel)]
    if ordinality:
        items += f", CAST(generate_subscripts({found.sql}, 1) AS BIGINT) AS c1"
        second = listed[1] if len(listed) > 1 else "ordinality"
        rel.columns.append(Col(second, f"{alias}.c1", BIGINT, position=1, rel=rel))
    if in_steps:
        items += f" FROM generate_{found.sql.removeprefix('pg_')} AS s (n)"
    inner = f"(SELECT {items}) AS {alias}"
    return FromItem(inner, [rel], list(rel.columns))


def _is_counted(node: Any, found: set_returning.Listed) -> bool:
    """Whether a series is one of integers between ends that no row decides, by steps that are not 0."""
    step = node.args.get("step")
    bare = step.this if isinstance(step, exp.Neg) else step
    return (
        found.one.base in INTEGERS
        and all(_is_given(node.args[end]) for end in ("start", "end"))
        and (bare is None or (isinstance(bare, exp.Literal) and bare.this.strip("0") != ""))
    )


def _is_given(node: Any) -> bool:
    """Whether a value is in the statement's text or among its parameters."""
    while isinstance(node, (exp.Neg, exp.Cast, exp.Paren)):
        node = node.this
    return isinstance(node, (exp.Literal, exp.Parameter, exp.Placeholder))


def _library(
    binder: Binder,
    name: str,
    nodes: list[Any],
    own: str | None,
    listed: list[str],
    scope: Scope,
    *,
    ordinality: bool,
) -> FromItem:
    """A function of the library as a table: its rows, or the one row that it gives."""
    arguments = binder.bind_all(nodes, scope)
    found = resolve(name, tuple([full_type(x) for x in arguments]))
    if found is None:
        raise no_function(name, types_of(*arguments))
    routine = found.routine
    alias = binder.alias()
    rel = Rel(own or name, alias, [])
    given = emit.invoke(binder, found, arguments)
    whole = given.sql if routine.setof else f"[{given.sql}]"
    items = f"unnest({whole}) AS c"
    if ordinality:
        items += f", CAST(generate_subscripts({whole}, 1) AS BIGINT) AS n"
    outputs: list[str] = []
    for i, (column, type_) in enumerate(routine.columns or ((own or name, found.result),)):
        shown = listed[i] if i < len(listed) else column
        sql = "c"
        if routine.columns:
            one = Typed(f"c[{i + 1}]", TEXT)
            sql = (
                one.sql
                if type_ in (TEXT,)
                else emit.invoke(binder, Resolved("cast", 0, (TEXT,), type_), [one]).sql
            )
        outputs.append(f"{sql} AS c{i}")
        array = type_.dimensions if type_.base is Base.ARRAY else 0
        held = type_.element_type if array else type_
        rel.columns.append(Col(shown, f"{alias}.c{i}", held, array=array, position=i, rel=rel))
    if ordinality:
        at = len(rel.columns)
        outputs.append(f"n AS c{at}")
        shown = listed[at] if at < len(listed) else "ordinality"
        rel.columns.append(Col(shown, f"{alias}.c{at}", BIGINT, position=at, rel=rel))
    inner = f"(SELECT {', '.join(outputs)} FROM (SELECT {items})) AS {alias}"
    return FromItem(inner, [rel], list(rel.columns))


def bind_from(binder: Binder, node: Any, scope: Scope) -> str:
    """Bind FROM and its joins into ``scope``; the DuckDB text, empty without FROM."""
    source = node.args.get("from_")
    if source is None:
        return ""
    items: list[FromItem] = []
    current = _item(binder, source.this, scope, items)
    for join in node.args.get("joins") or ():
        if _is_comma(join):
            items.append(current)
            current = _item(binder, join.this, scope, items)
        else:
            current = _join(binder, current, join, scope, items)
    items.append(current)
    for item in items:
        scope.add(item)
    return ", ".join(item.sql for item in items)


def _is_comma(join: Any) -> bool:
    return not any(join.args.get(k) for k in ("kind", "side", "method", "on", "using"))


def _item(binder: Binder, node: Any, scope: Scope, before: list[FromItem]) -> FromItem:
    """One item of FROM; its own nested joins are part of it."""
    if isinstance(node, exp.Table):
        item = _table(binder, node, scope, before)
    elif isinstance(node, exp.Subquery):
        item = _subquery(binder, node, scope, before, lateral=False)
    elif isinstance(node, exp.Lateral):
        item = _lateral(binder, node, scope, before)
    elif isinstance(node, exp.Values):
        item = _derived(binder, node, node.args.get("alias"), scope.inside([], []))
    elif isinstance(node, exp.Unnest):
        item = _unnest(binder, node, scope, before)
    else:
        raise SqlError("0A000", f"{type(node).__name__} in FROM is not supported")
    for join in node.args.get("joins") or ():
        item = _join(binder, item, join, scope, before)
    return item


def _alias_of(node: Any) -> tuple[str | None, list[str]]:
    alias = node.args.get("alias") if not isinstance(node, exp.TableAlias) else node
    if alias is None:
        return None, []
    this = alias.args.get("this")
    return (identifier(this) if this is not None else None), [
        identifier(c) for c in alias.args.get("columns") or ()
    ]


def _table(binder: Binder, node: Any, scope: Scope, before: list[FromItem]) -> FromItem:
    if not isinstance(node.this, exp.Identifier):
        return _function(binder, node, scope, before)
    for clause in ("pivots", "hints", "version", "laterals", "when", "rows_from", "changes"):
        if node.args.get(clause):
            raise SqlError("0A000", f"{clause} in FROM is not supported")
    name = identifier(node.this)
    own, listed = _alias_of(node)
    schema = identifier(node.args["db"]) if node.args.get("db") else None
    if schema is None:
        make = scope.cte(name)
        if make is not None:
            if node.args.get("sample"):
                raise SqlError("0A000", "TABLESAMPLE clause can only be applied to tables")
            alias = binder.alias()
            rel = make(alias)
            rel.name = own or name
            _rename(rel, listed)
            return FromItem(f"{make.alias} AS {alias}", [rel], list(rel.columns))  # type: ignore[attr-defined]
        relation = binder.given.get(name)
        if relation is not None and not node.args.get("sample"):
            return _read(binder, relation.table, own or name, [*relation.names], listed)
    table = binder.catalog.find(schema, name)
    if not isinstance(table, Table) or node.args.get("catalog"):
        full = f"{schema}.{name}" if schema else name
        raise SqlError("42P01", f'relation "{full}" does not exist')
    return _read(binder, table, own or name, [], listed, node.args.get("sample"))


def _read(
    binder: Binder, table: Table, name: str, names: list[str], listed: list[str], sample: Any = None
) -> FromItem:
    """The rows of a table under ``name``; its columns are called ``names``, and then ``listed``."""
    alias = binder.alias()
    scan = ScanNeeds(f"s{len(binder.scans)}", table)
    binder.scans.append(scan)
    rel = Rel(name, alias, [], table=table, scan=scan)
    rel.columns = [scopes.table_column(rel, table, p) for p in table.visible]
    _rename(rel, names)
    _rename(rel, listed)
    source = sampled(binder, scan, sample) if sample is not None else scan.name
    return FromItem(f"{source} AS {alias}", [rel], list(rel.columns))


def _rename(rel: Rel, listed: list[str]) -> None:
    if len(listed) > len(rel.columns):
        raise SqlError(
            "42P10",
            f'table "{rel.name}" has {len(rel.columns)} columns available '
            f"but {len(listed)} columns specified",
        )
    for column, name in zip(rel.columns, listed, strict=False):
        column.name = name


def _seen(scope: Scope, before: list[FromItem]) -> Scope:
    """What a LATERAL item sees: the items to its left."""
    return scope.inside([c for i in before for c in i.star], [r for i in before for r in i.rels])


def _subquery(binder: Binder, node: Any, scope: Scope, before: list[FromItem], *, lateral: bool) -> FromItem:
    inner = node.this
    if isinstance(inner, exp.Table) or (isinstance(inner, exp.Subquery) and inner.args.get("joins")):
        # A parenthesised join. An alias hides the names inside.
        item = _item(binder, inner, scope, before)
        own, listed = _alias_of(node)
        if own is not None:
            rel = Rel(own, "", item.star, is_recursion=any(one.is_recursion for one in item.rels))
            _rename(rel, listed)
            return FromItem(f"({item.sql})", [rel], item.star)
        return FromItem(f"({item.sql})", item.rels, item.star)
    parent = _seen(scope, before) if lateral else scope.inside([], [])
    item = _derived(binder, inner, node.args.get("alias"), parent)
    if VIEW in node.meta:  # its columns are its own, whatever they are made of
        for number, column in enumerate(item.star, 1):
            column.origin = ColumnOrigin(node.meta[VIEW], number)
    return item


def _derived(binder: Binder, query: Any, alias_node: Any, parent: Scope) -> FromItem:
    own, listed = _alias_of(alias_node) if alias_node is not None else (None, [])
    if own is None:
        raise SqlError(
            "42601", "subquery in FROM must have an alias", hint="For example, FROM (SELECT ...) [AS] foo."
        )
    bound = binder.query(query, parent, mixed=True)
    alias = binder.alias()
    rel = derived(own, alias, bound.columns, [])
    _rename(rel, listed)
    return FromItem(f"({bound.sql}) AS {alias}({bound.names()})", [rel], list(rel.columns))


def _lateral(binder: Binder, node: Any, scope: Scope, before: list[FromItem]) -> FromItem:
    inner = node.this
    if isinstance(inner, exp.Subquery):
        item = _derived(binder, inner.this, node.args.get("alias"), _seen(scope, before))
        return FromItem("LATERAL " + item.sql, item.rels, item.star)
    own, listed = _alias_of(node)
    if isinstance(inner, exp.Unnest):
        return _unnest(binder, inner, scope, before, own, listed)
    return bind_series(binder, inner, own, listed, _seen(scope, before), bool(node.args.get("ordinality")))


# ---------------------------------------------------------------------------- functions as tables


def _function(binder: Binder, node: Any, scope: Scope, before: list[FromItem]) -> FromItem:
    own, listed = _alias_of(node)
    if node.args.get("rows_from"):
        return rows_from(binder, node, own, listed, _seen(scope, before))
    return bind_series(
        binder, node.this, own, listed, _seen(scope, before), bool(node.args.get("ordinality"))
    )


def _unnest(
    binder: Binder,
    node: Any,
    scope: Scope,
    before: list[FromItem],
    own: str | None = None,
    listed: list[str] | None = None,
) -> FromItem:
    if own is None:
        own, listed = _alias_of(node)
    if len(node.expressions) != 1:
        return several_arrays(binder, node, own, listed or [], _seen(scope, before))
    x = casts.listed(binder, binder.bind(node.expressions[0], _seen(scope, before)))
    if not x.array:
        raise SqlError("42883", f"function unnest({x.type}) does not exist")
    alias = binder.alias()
    rel = Rel(own or "unnest", alias, [])
    offset = node.args.get("offset")
    listed = listed or []
    name = listed[0] if listed else own or "unnest"
    rel.columns = [Col(name, f"{alias}.c0", x.type, x.dec, position=0, rel=rel)]
    sql = f"SELECT unnest({elements(x)}) AS c0"
    if offset:
        second = identifier(offset) if isinstance(offset, exp.Identifier) else "ordinality"
        rel.columns.append(Col(second, f"{alias}.c1", BIGINT, position=1, rel=rel))
        sql += f", CAST(generate_subscripts({elements(x)}, 1) AS BIGINT) AS c1"
    return FromItem(f"({sql}) AS {alias}", [rel], list(rel.columns))


# ---------------------------------------------------------------------------- joins


def _join(binder: Binder, left: FromItem, join: Any, scope: Scope, before: list[FromItem]) -> FromItem:
    right = _item(binder, join.this, scope, [*before, left])
    side = str(join.args.get("side") or "").upper()
    kind = str(join.args.get("kind") or "").upper()
    method = str(join.args.get("method") or "").upper()
    if method not in ("", "NATURAL") or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise SqlError("0A000", f"{method or kind} JOIN is not supported")
    for rel in right.rels:
        if rel.name and any(r.name == rel.name for r in left.rels):
            raise SqlError("42712", f'table name "{rel.name}" specified more than once')
    rels = left.rels + right.rels
    for rel in (left.rels if side in ("RIGHT", "FULL") else []) + (
        right.rels if side in ("LEFT", "FULL") else []
    ):
        rel.nullable = True
    if kind == "CROSS" or (method == "" and _is_comma(join)):
        return FromItem(f"{left.sql} CROSS JOIN {right.sql}", rels, left.star + right.star)
    word = f"{side} JOIN" if side else "JOIN"
    using = [identifier(u) for u in join.args.get("using") or ()]
    if method == "NATURAL":
        names = {c.name for c in right.star}
        using = [c.name for c in left.star if c.name in names]
        if not using:
            if side:
                return FromItem(f"{left.sql} {word} {right.sql} ON true", rels, left.star + right.star)
            return FromItem(f"{left.sql} CROSS JOIN {right.sql}", rels, left.star + right.star)
    if using:
        return _using(binder, left, right, using, side, word, scope)
    inner = scope.inside(left.star + right.star, rels)
    inner.clause = "JOIN/ON"
    x = trees.condition(binder, join.args["on"], inner, "JOIN/ON")
    if not side:
        note_bounds(binder, join.args["on"], inner)
    return FromItem(f"{left.sql} {word} {right.sql} ON {x.sql}", rels, left.star + right.star)


def _using(
    binder: Binder, left: FromItem, right: FromItem, using: list[str], side: str, word: str, scope: Scope
) -> FromItem:
    merged, conditions = [], []
    for name in using:
        pair = []
        for item, where in ((left, "left"), (right, "right")):
            found = [c for c in item.star if c.name == name]
            if not found:
                raise SqlError(
                    "42703", f'column "{name}" specified in USING clause does not exist in {where} table'
                )
            if len(found) > 1:
                raise SqlError(
                    "42702", f'common column name "{name}" appears more than once in {where} table'
                )
            pair.append(found[0])
        a, b = (from_column(c, scope.number) for c in pair)
        x, y = comparable(binder, "=", a, b)
        conditions.append(f"{x} = {y}")
        one, two = unify(binder, [a, b], "JOIN/USING", loose=True)
        sql = two.sql if side == "RIGHT" else one.sql
        if side == "FULL":
            sql = f"coalesce({one.sql}, {two.sql})"
        kept, same = (pair[1], two.sql == b.sql) if side == "RIGHT" else (pair[0], one.sql == a.sql)
        merged.append(
            Col(
                name,
                sql,
                one.type,
                one.dec,
                position=pair[0].position,
                rel=None,
                merged=tuple(pair),
                origin=kept.origin if same and side != "FULL" else None,
            )
        )
    gone = set(using)
    star = merged + [c for c in left.star + right.star if c.name not in gone]
    sql = f"{left.sql} {word} {right.sql} ON {' AND '.join(f'({c})' for c in conditions)}"
    return FromItem(sql, left.rels + right.rels, star)
