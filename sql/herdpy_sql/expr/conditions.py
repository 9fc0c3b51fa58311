"""Binding of conditions, and of what chooses by them: comparisons, IN, ANY, LIKE, AND, OR; CASE, COALESCE.

Each handler takes the binder and a node of the syntax tree, and gives a typed tree. Long runs of AND and OR
are flattened, so that they cost no depth. ``= ANY`` and ``<> ALL`` are IN and NOT IN: of the elements that
are written out, or of a parameter that is an array, whose elements are known when the statement runs. ANY and
ALL of other arrays and of queries are the columnar engine's, and so is matching a regular expression.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from msgspec.structs import replace
from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.duck import is_beyond_duck
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import Params, as_array, coerce, common_type, settle, unify
from herdpy_sql.expr.compile import folded
from herdpy_sql.expr.operate import comparable, compare, compared_type, distinct, library_call
from herdpy_sql.expr.resolve import no_operator
from herdpy_sql.expr.rows import null_fields, written_fields
from herdpy_sql.expr.subqueries import tested
from herdpy_sql.expr.syntax import bare, is_row, quantifier, written_out
from herdpy_sql.expr.typenames import element_of
from herdpy_sql.types import BOOLEAN, UNKNOWN, Base, SqlType, array_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.expr.binder import ExprBinder, Handler


def quantified(binder: ExprBinder, left: exp.Expression, op: str, right: exp.Any | exp.All) -> n.Expr:
    """``left op ANY|ALL`` of an array or a query."""
    every = isinstance(right, exp.All)
    inner = bare(right.this)
    if isinstance(inner, exp.Query):
        return _compared_rows(binder, left, op, inner, "all" if every else "any")
    among = op == ("<>" if every else "=")
    items = written_out(inner)
    if is_row(left):
        raise SqlError("0A000", "a row beside ANY or ALL of an array is not supported")
    arg = binder.bind(left)
    if items is None:
        return _of_array(binder, arg, op, inner, every)
    if not items:
        if isinstance(inner, exp.Cast) and (element := element_of(inner.args["to"])) is not None:
            comparable(op, arg, n.Const(element, None), binder.params)
        return n.In(BOOLEAN, settle(arg, binder.params), (), every)
    if among:
        found = member(binder, arg, [binder.bind(item) for item in items])
        return negated(found) if every else found
    parts = tuple([compare(op, arg, binder.bind(item), binder.params) for item in items])
    return folded((n.And if every else n.Or)(BOOLEAN, parts))


def _compared_rows(
    binder: ExprBinder, left: exp.Expression, op: str, query: exp.Expression, kind: str
) -> n.Expr:
    """A value or a row compared with the rows of a query."""
    fields = written_fields(binder, left) if is_row(left) else [binder.bind(left)]
    return tested(binder, query, kind, len(fields), lambda columns: rows(op, fields, columns, binder.params))


def _of_array(binder: ExprBinder, arg: n.Expr, op: str, node: exp.Expression, every: bool) -> n.Expr:
    """``arg op ANY|ALL (array)`` of an array that is not written out."""
    held = bare(node.this) if isinstance(node, exp.Cast) else node
    if op == ("<>" if every else "=") and isinstance(held, exp.Parameter):
        found = _parameter(binder, arg, node)
        if found is not None:
            return negated(found) if every else found
    array = _operand(binder, arg, node)
    element = n.Element(array.type.element_type)
    left, right = comparable(op, arg, element, binder.params)
    test = n.Comparison(BOOLEAN, op, n.CaseOperand(left.type), right)
    return folded(n.Quantified(BOOLEAN, left, array, test, every))


def _operand(binder: ExprBinder, arg: n.Expr, node: exp.Expression) -> n.Expr:
    """What ANY or ALL is over: an array, of the type of ``arg`` where nothing else says it."""
    array = binder.bind(node)
    if array.type.base is Base.UNKNOWN:
        of = t.TEXT if arg.type.base is Base.UNKNOWN else arg.type
        array = coerce(array, array_of(of), "implicit", binder.params)
    array = as_array(array, binder.params)
    if array.type.base is not Base.ARRAY:
        raise SqlError("42809", "op ANY/ALL (array) requires array on right side")
    return array


def _parameter(binder: ExprBinder, arg: n.Expr, node: exp.Expression) -> n.Expr | None:
    """A member of a parameter that is an array, and may be cast; None where a cast is more than a word."""
    element: SqlType | None = None
    if isinstance(node, exp.Cast):
        element = element_of(node.args["to"])
        if element is None:
            return None
        node = bare(node.this)
    assert isinstance(node, exp.Parameter)
    param = binder.bind(node)
    if not isinstance(param, n.Param):
        return None
    if param.type.base is Base.UNKNOWN:
        if element is None and arg.type.base is Base.UNKNOWN:
            return None
        of = element or arg.type
        param = binder.params.fix(param, array_of(of if of.enum is not None else of.base))
    held = param.type.element
    if held is None:
        raise SqlError("42809", "op ANY/ALL (array) requires array on right side")
    if element is not None and not _wider(held, element.base):
        return None
    one = n.Elements(SqlType(held, enum=param.type.enum), param.number)
    if arg.type.base is Base.UNKNOWN:
        arg = coerce(arg, one.type, "implicit", binder.params)
    found = compare("=", arg, one, binder.params)
    if not isinstance(found, n.Comparison) or found.right is not one:
        return None
    return n.In(BOOLEAN, found.left, (one,), False)


_INTEGERS = (Base.SMALLINT, Base.INTEGER, Base.BIGINT)


def _wider(held: Base, wanted: Base) -> bool:
    """Whether a cast of elements changes nothing that a comparison sees."""
    if held in _INTEGERS and wanted in _INTEGERS:
        return _INTEGERS.index(held) <= _INTEGERS.index(wanted)
    return held is wanted or {held, wanted} == {Base.TEXT, Base.VARCHAR}


def member(binder: ExprBinder, arg: n.Expr, items: list[n.Expr]) -> n.Expr:
    """``arg IN (items)``: over one common type where there is one, else as a run of OR."""
    try:
        shared = common_type([arg.type, *(item.type for item in items)], "IN")
    except SqlError:
        shared = None
    if shared is not None:
        if arg.type.base is Base.UNKNOWN:
            arg = coerce(arg, shared, "implicit", binder.params)
        items = [
            coerce(item, shared, "implicit", binder.params) if item.type.base is Base.UNKNOWN else item
            for item in items
        ]
    pairs = [comparable("=", arg, item, binder.params) for item in items]
    first = pairs[0][0]
    if not all(left is first or left == first for left, _ in pairs):
        if shared is None:
            parts = [folded(n.Comparison(BOOLEAN, "=", left, right)) for left, right in pairs]
            return folded(n.Or(BOOLEAN, tuple(parts)))
        first = coerce(arg, shared, "implicit", binder.params)
        pairs = [(first, coerce(item, shared, "implicit", binder.params)) for item in items]
    return folded(n.In(BOOLEAN, first, tuple([right for _, right in pairs]), False))


def conjunction(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """AND, a whole run of it at once."""
    return folded(n.And(BOOLEAN, tuple(binder.condition(part, "AND") for part in _flat(node, exp.And))))


def disjunction(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """OR, a whole run of it at once."""
    return folded(n.Or(BOOLEAN, tuple(binder.condition(part, "OR") for part in _flat(node, exp.Or))))


def negation(binder: ExprBinder, node: exp.Not) -> n.Expr:
    """NOT."""
    return negated(binder.condition(node.this, "NOT"))


_IS_MORE = {
    "DOCUMENT": "XML (IS DOCUMENT)",
    **dict.fromkeys(("NORMALIZED", "NFC", "NFD", "NFKC", "NFKD"), "IS NORMALIZED"),
}
"""What PostgreSQL has after IS beside what is read."""


def is_(binder: ExprBinder, node: exp.Is) -> n.Expr:
    """IS [NOT] NULL, TRUE or FALSE; a row is NULL if all its fields are, and NOT NULL if none is."""
    negate = bool(node.args.get("negate"))
    what = node.expression
    if isinstance(what, exp.Null):
        fields = null_fields(binder, node.this)
        if fields is None:
            return folded(n.IsNull(BOOLEAN, binder.typed(node.this), negate))
        return folded(n.And(BOOLEAN, tuple([folded(n.IsNull(BOOLEAN, one, negate)) for one in fields])))
    if isinstance(what, exp.Boolean):
        name = f"IS {'NOT ' if negate else ''}{'TRUE' if what.this else 'FALSE'}"
        return folded(n.IsTruth(BOOLEAN, binder.condition(node.this, name), bool(what.this), negate))
    words = what.sql("postgres").upper()
    if words not in _IS_MORE:
        raise SqlError("42601", f'syntax error at or near "{what.sql("postgres")}"')
    raise SqlError("0A000", f"{_IS_MORE[words]} is not supported")


def comparison(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """A comparison of two values, of two rows, or with ANY or ALL of several."""
    op = COMPARISONS[type(node)]
    left, right = bare(node.this), quantifier(bare(node.expression))
    if isinstance(right, exp.Any | exp.All):
        return quantified(binder, left, op, right)
    if is_row(left) and isinstance(right, exp.Query):
        return _compared_rows(binder, left, op, right, "row")
    if is_row(left) and is_row(right):
        return rows(op, written_fields(binder, left), written_fields(binder, right), binder.params)
    return compare(op, binder.bind(left), binder.bind(right), binder.params)


def rows(op: str, left: Sequence[n.Expr], right: Sequence[n.Expr], params: Params) -> n.Expr:
    """A comparison of two rows, field by field. SqlError 42601 where one is longer."""
    if len(left) != len(right):
        raise SqlError("42601", "unequal number of entries in row expressions")
    if not left:
        raise SqlError("0A000", "cannot compare rows of zero length")
    pairs = list(zip(left, right, strict=True))
    if op not in {"=", "<>"}:
        return _ordered_rows(op, pairs, params)
    parts = tuple([compare(op, a, b, params) for a, b in pairs])
    if len(parts) == 1:
        return parts[0]
    return folded(n.And(BOOLEAN, parts) if op == "=" else n.Or(BOOLEAN, parts))


def _ordered_rows(op: str, pairs: Sequence[tuple[n.Expr, n.Expr]], params: Params) -> n.Expr:
    """``(a, b) < (x, y)`` as ``a < x OR (a = x AND b < y)``: the first that differ decide, NULLs too."""
    *before, (a, b) = pairs
    found = compare(op, a, b, params)
    for a, b in reversed(before):
        less, same = compare(op[0], a, b, params), compare("=", a, b, params)
        found = folded(n.Or(BOOLEAN, (less, folded(n.And(BOOLEAN, (same, found))))))
    return found


def is_distinct(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """IS [NOT] DISTINCT FROM, of values or of rows."""
    same = isinstance(node, exp.NullSafeEQ)
    if not (is_row(node.this) and is_row(node.expression)):
        return distinct(binder.bind(node.this), binder.bind(node.expression), same, binder.params)
    left, right = written_fields(binder, node.this), written_fields(binder, node.expression)
    if len(left) != len(right):
        raise SqlError("42601", "unequal number of entries in row expressions")
    parts = tuple([distinct(a, b, same, binder.params) for a, b in zip(left, right, strict=True)])
    return folded(n.And(BOOLEAN, parts) if same else n.Or(BOOLEAN, parts))


def in_(binder: ExprBinder, node: exp.In) -> n.Expr:
    """IN of a list or a query, of values or of rows."""
    left, query = bare(node.this), node.args.get("query")
    if query is None and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values):
        query = node.expressions[0]
    if query is not None:
        return _compared_rows(binder, left, "=", query, "any")
    if not node.expressions:
        raise SqlError("42601", "syntax error: IN requires a list in parentheses")
    if not is_row(left):
        return member(binder, binder.bind(left), [binder.bind(item) for item in node.expressions])
    fields = written_fields(binder, left)
    parts = []
    for item in node.expressions:
        row = bare(item)
        if not is_row(row):
            raise no_operator("=", [SqlType(Base.RECORD), binder.bind(row).type])
        parts.append(rows("=", fields, written_fields(binder, row), binder.params))
    return parts[0] if len(parts) == 1 else folded(n.Or(BOOLEAN, tuple(parts)))


def between(binder: ExprBinder, node: exp.Between) -> n.Expr:
    """BETWEEN [SYMMETRIC], of values or of rows."""
    ends = (node.this, node.args["low"], node.args["high"])
    both = bool(node.args.get("symmetric"))
    params = binder.params
    if all(map(is_row, ends)):
        fields, first, last = (written_fields(binder, one) for one in ends)
        found = [_rows_within(fields, first, last, params)]
        found += [_rows_within(fields, last, first, params)] * both
    else:
        arg, low, high = (binder.bind(one) for one in ends)
        found = [within(arg, low, high, params)]
        found += [within(arg, high, low, params)] * both
    return folded(n.Or(BOOLEAN, tuple(found))) if both else found[0]


def within(arg: n.Expr, low: n.Expr, high: n.Expr, params: Params) -> n.Expr:
    """``arg BETWEEN low AND high``; one node where both comparisons are over the same value."""
    first, second = compare(">=", arg, low, params), compare("<=", arg, high, params)
    if isinstance(first, n.Comparison) and isinstance(second, n.Comparison) and first.left == second.left:
        return n.Between(BOOLEAN, first.left, first.right, second.right)
    return folded(n.And(BOOLEAN, (first, second)))


def _rows_within(arg: list[n.Expr], low: list[n.Expr], high: list[n.Expr], params: Params) -> n.Expr:
    return folded(n.And(BOOLEAN, (rows(">=", arg, low, params), rows("<=", arg, high, params))))


def like(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """LIKE and ILIKE; with ANY or ALL, of the patterns of an array or a query."""
    mark = n.Const(t.TEXT, "\\")
    quantity = node.expression
    if not isinstance(quantity, exp.Any | exp.All):
        return _like(node, binder.bind(node.this), binder.bind(quantity), mark, binder.params)
    inner, every = bare(quantity.this), isinstance(quantity, exp.All)
    arg = binder.bind(node.this)
    if isinstance(inner, exp.Query):
        return tested(
            binder,
            inner,
            "all" if every else "any",
            1,
            lambda columns: _like(node, arg, columns[0], mark, binder.params),
        )
    patterns = written_out(inner)
    if not patterns:
        return _like_elements(binder, node, arg, inner, every)
    parts = tuple([_like(node, arg, binder.bind(one), mark, binder.params) for one in patterns])
    return folded((n.And if every else n.Or)(BOOLEAN, parts))


def _like_elements(
    binder: ExprBinder, node: exp.Expression, arg: n.Expr, patterns: exp.Expression, every: bool
) -> n.Expr:
    """LIKE with ANY or ALL of an array that is not written out."""
    array = _operand(binder, arg, patterns)
    element = n.Element(array.type.element_type)
    like = _like(node, arg, element, n.Const(t.TEXT, "\\"), binder.params)
    assert isinstance(like, n.Like)
    test = replace(like, arg=n.CaseOperand(like.arg.type))
    return folded(n.Quantified(BOOLEAN, like.arg, array, test, every))


def escape(binder: ExprBinder, node: exp.Escape) -> n.Expr:
    """LIKE and ILIKE with ESCAPE."""
    mark = coerce(binder.bind(node.expression), t.TEXT, "implicit", binder.params)
    if isinstance(mark, n.Const) and isinstance(mark.value, str) and len(mark.value) > 1:
        raise SqlError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    inner = node.this
    if not isinstance(inner, exp.Like | exp.ILike):
        raise SqlError("0A000", "ESCAPE of anything but LIKE is not supported")
    return _like(inner, binder.bind(inner.this), binder.bind(inner.expression), mark, binder.params)


def _like(node: exp.Expression, arg: n.Expr, pattern: n.Expr, escape: n.Expr, params: Params) -> n.Expr:
    insensitive = isinstance(node, exp.ILike)
    sides = _pattern_sides("~~*" if insensitive else "~~", arg, pattern, params)
    return folded(n.Like(BOOLEAN, *sides, escape, insensitive, bool(node.args.get("negate"))))


_MATCHES = {
    symbol: n.Function(symbol, lambda text, pattern: None, duck=text, foreign=f"{symbol} with a pattern")
    for symbol, text in (
        ("~", "regexp_matches({0}, {1}, 's')"),
        ("~*", "regexp_matches({0}, {1}, 'si')"),
        ("similar to", "regexp_matches({0}, pg_similar({1}), 's')"),
    )
}


def regexp(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """``~``, ``~*`` and SIMILAR TO, which DuckDB has an engine for; the library has it for other patterns."""
    symbol = _PATTERNS[type(node)]
    arg, pattern = binder.bind(node.this), binder.bind(node.expression)
    sides = _pattern_sides("~" if symbol == "similar to" else symbol, arg, pattern, binder.params)
    known = sides[1].value if isinstance(sides[1], n.Const) else None
    if symbol in _OPTIONS and isinstance(known, str) and is_beyond_duck(known):
        found = library_call("regexp_like", [*sides, n.Const(t.TEXT, _OPTIONS[symbol])], binder.params)
        assert found is not None
        return found
    return folded(n.Call(BOOLEAN, _MATCHES[symbol], sides))


_OPTIONS = {"~": "", "~*": "i"}
_PATTERNS: dict[type, str] = {exp.RegexpLike: "~", exp.RegexpILike: "~*", exp.SimilarTo: "similar to"}


def _pattern_sides(symbol: str, arg: n.Expr, pattern: n.Expr, params: Params) -> tuple[n.Expr, n.Expr]:
    """Both sides as TEXT."""
    for one in (arg, pattern):
        if one.type.base not in _TEXTUAL:
            raise no_operator(symbol, [arg.type, pattern.type])
    return _pattern_side(arg, params), _pattern_side(pattern, params)


_TEXTUAL = frozenset({Base.TEXT, Base.VARCHAR, Base.CHAR, Base.NAME, Base.CHAR_BYTE, Base.UNKNOWN})


def _pattern_side(side: n.Expr, params: Params) -> n.Expr:
    if side.type.base is Base.CHAR and side.type.length is not None:
        # Patterns, unlike comparisons, see the blanks that CHAR(n) is padded with.
        return n.Call(t.TEXT, _padding(side.type.length), (side,))
    return coerce(side, t.TEXT, "implicit", params)


@functools.lru_cache(maxsize=256)
def _padding(width: int) -> n.Function:
    return n.Function("pad", lambda text: text.ljust(width), duck=f"rpad({{0}}, {width}, ' ')")


def negated(condition: n.Expr) -> n.Expr:
    """NOT of a condition, taken into the nodes that have a negated form."""
    if isinstance(condition, n.In | n.Like | n.IsNull | n.IsTruth | n.Distinct):
        return replace(condition, negated=not condition.negated)
    return folded(n.Not(BOOLEAN, condition))


def _flat(node: exp.Expression, kind: type) -> list[exp.Expression]:
    parts: list[exp.Expression] = []
    stack = [node]
    while stack:
        one = bare(stack.pop())
        if isinstance(one, kind):
            stack.append(one.expression)
            stack.append(one.this)
        else:
            parts.append(one)
    return parts


def case(binder: ExprBinder, node: exp.Case) -> n.Expr:
    """CASE with an operand or with conditions; SqlError 42804 when the branches have no common type."""
    operand: n.Expr | None = None
    whens: list[n.Expr] = []
    branches = node.args["ifs"]
    if node.this is not None:
        operand = binder.typed(node.this)
        place = n.CaseOperand(operand.type)
        whens = [compare("=", place, binder.bind(branch.this), binder.params) for branch in branches]
    else:
        whens = [binder.condition(branch.this, "CASE/WHEN") for branch in branches]
    default = node.args.get("default")
    results = [n.Const(UNKNOWN, None) if default is None else binder.bind(default)]
    results += [binder.bind(branch.args["true"]) for branch in branches]
    found, (last, *thens) = unify(results, binder.params, "CASE")
    return _settled_case(n.Case(found, operand, tuple(zip(whens, thens, strict=True)), last))


def coalesce(binder: ExprBinder, node: exp.Coalesce) -> n.Expr:
    """COALESCE."""
    found, args = unify(
        [binder.bind(arg) for arg in (node.this, *node.expressions)], binder.params, "COALESCE"
    )
    return args[0] if len(args) == 1 else folded(n.Coalesce(found, args))


def extreme(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """GREATEST and LEAST."""
    greatest = isinstance(node, exp.Greatest)
    name = "GREATEST" if greatest else "LEAST"
    found, args = unify([binder.bind(arg) for arg in (node.this, *node.expressions)], binder.params, name)
    if found.base is Base.JSON:
        raise SqlError("42883", f"could not identify a comparison function for type {found}")
    return folded(n.Extreme(found, args, greatest))


def nullif(binder: ExprBinder, node: exp.Nullif) -> n.Expr:
    """NULLIF."""
    left, right = binder.bind(node.this), binder.bind(node.expression)
    if left.type.base is Base.UNKNOWN:
        left = coerce(
            left, t.TEXT if right.type.base is Base.UNKNOWN else right.type, "implicit", binder.params
        )
    left = coerce(left, compared_type(left, right), "implicit", binder.params)
    if isinstance(right, n.Const) and right.value is None:
        return left
    same = compare("=", n.CaseOperand(left.type), right, binder.params)
    assert isinstance(same, n.Comparison)
    return folded(n.NullIf(left.type, left, same))


def _settled_case(case: n.Case) -> n.Expr:
    """Without the conditions that are constant; what is left of it may be its default alone."""
    if case.operand is not None:
        return case
    kept: list[tuple[n.Expr, n.Expr]] = []
    default = case.default
    if not any(isinstance(when, n.Const) for when, _ in case.whens) or n.has_columns(case):
        return case
    for when, then in case.whens:
        if isinstance(when, n.Const):
            if when.value is True:
                default = then
                break
            continue
        kept.append((when, then))
    return replace(case, whens=tuple(kept), default=default) if kept else default


COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
CONDITIONS: dict[type, Handler] = {
    **dict.fromkeys(COMPARISONS, comparison),
    exp.And: conjunction,
    exp.Or: disjunction,
    exp.Not: negation,
    exp.Is: is_,
    exp.NullSafeEQ: is_distinct,
    exp.NullSafeNEQ: is_distinct,
    exp.In: in_,
    exp.Between: between,
    exp.Like: like,
    exp.ILike: like,
    exp.Escape: escape,
    **dict.fromkeys(_PATTERNS, regexp),
    exp.Case: case,
    exp.Coalesce: coalesce,
    exp.Greatest: extreme,
    exp.Least: extreme,
    exp.Nullif: nullif,
}
