"""From a typed tree to DuckDB's text: a fold, with one function for each class of node.

``expr`` binds syntax to nodes of ``expr.nodes``, which know what an expression means: types, casts and the
operator that was chosen. Here each node becomes a :class:`~herdpy_sql.duck.Typed`, from those of its parts.
What is decided here is DuckDB's form alone: the DECIMAL of a NUMERIC, the key that JSONB compares by, what is
computed once. Text that is there already stands in a tree as :class:`Emitted`.
``subqueries``, ``aggregates``, ``windows`` and ``set_returning``, above this, have nodes of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs
from sqlglot import exp

from herdpy_sql.columnar import casts, engine, literals
from herdpy_sql.columnar.comparisons import comparable_texts, order_key
from herdpy_sql.columnar.emission import MAX_TEXT, STATEMENT_US, TRANSACTION_US, too_complex
from herdpy_sql.columnar.macros import BARE, copies
from herdpy_sql.columnar.routines import duck_name, full_type
from herdpy_sql.duck import Typed, as_text, let, once, steady, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr import operate
from herdpy_sql.expr.binder import LIST
from herdpy_sql.expr.calls import STACK
from herdpy_sql.expr.coerce import coerce as coerced
from herdpy_sql.expr.coerce import unify as unified
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.rows import ROW
from herdpy_sql.library import Resolved
from herdpy_sql.types import BOOLEAN, DOUBLE, TEXT, TIMESTAMPTZ, UNKNOWN, UUID, Base, SqlType, array_of
from herdpy_sql.values.arrays import RAGGED
from herdpy_sql.values.form import quote

if TYPE_CHECKING:
    from herdpy_sql.columnar.emission import Emission


class Emitted(n.Foreign, frozen=True, eq=False):
    """DuckDB's text that is there already."""

    typed: Typed

    def label(self) -> str:
        return "expression"


def entered(x: Typed) -> n.Expr:
    """``x`` as a node of a tree."""
    if x.unknown:
        if x.param is not None:
            return n.Param(UNKNOWN, x.param)
        if x.null or x.literal is not None:
            return n.Const(UNKNOWN, x.literal)
    return Emitted(full_type(x), x)


class Groups:
    """What a query groups by: the text that stands for each expression in what is made of a group."""

    def __init__(self, grouped: Iterable[tuple[n.Expr, Typed]]) -> None:
        pairs = list(grouped)
        self._types = frozenset([type(expr) for expr, _ in pairs])
        self._texts = {n.fingerprint(expr): text for expr, text in pairs}

    def find(self, expr: n.Expr) -> Typed | None:
        """The text of an expression that is grouped by."""
        return self._texts.get(n.fingerprint(expr)) if type(expr) in self._types else None


class Emitter:
    """One fold.

    Attributes:
        groups: what the query groups by; None where it does not, and within aggregates.
        operands: those of the CASEs around a node.
        rows: the columns of the queries around it that a test is over.
        elements: those of the arrays around it that a test is over.
        seen: the syntax of the subqueries so far, and None for each division.
    """

    def __init__(self, emission: Emission, groups: Groups | None = None) -> None:
        self.emission = emission
        self.groups = groups
        self.operands: list[Typed] = []
        self.rows: list[list[Typed]] = []
        self.elements: list[Typed] = []
        self.seen: list[exp.Expression | None] = []

    def emit(self, expr: n.Expr) -> Typed:
        """The node's text."""
        if self.groups is not None and (grouped := self.groups.find(expr)) is not None:
            return grouped
        found = EMITTERS[type(expr)](self, expr)
        if len(found.sql) > MAX_TEXT:
            raise too_complex(len(found.sql))
        return found

    def divides(self, since: int) -> bool:
        """Whether a division is anywhere in what was emitted since ``seen`` had that length."""
        return any(one is None or _divides(one) for one in self.seen[since:])


def emit(emission: Emission, expr: n.Expr, groups: Groups | None = None) -> Typed:
    """The text of a tree, in a query that groups by these."""
    return Emitter(emission, groups).emit(expr)


# ---------------------------------------------------------------------------- leaves and casts


def _text(emitter: Emitter, expr: Emitted) -> Typed:
    return expr.typed


def _column(emitter: Emitter, expr: n.ColumnRef) -> Typed:
    return emitter.emission.column(expr)


def _constant(emitter: Emitter, expr: n.Const) -> Typed:
    if expr.type.base is Base.ARRAY and expr.value is not None:
        return casts.array_constant(expr.type, expr.value)
    return literals.constant(expr.type, expr.value)


def _parameter(emitter: Emitter, expr: n.Param) -> Typed:
    if expr.type.base is Base.UNKNOWN:
        return Typed(f"${expr.number}", UNKNOWN, param=expr.number)
    found = literals.parameter(expr.number, expr.type)
    return replace(found, param=expr.number) if found.array else found


def _cast(emitter: Emitter, expr: n.Cast) -> Typed:
    x = emitter.emit(expr.arg)
    return (casts.cast if expr.explicit else casts.converted)(emitter.emission, x, expr.type)


# ---------------------------------------------------------------------------- calls


def _call(emitter: Emitter, expr: n.Call) -> Typed:
    function = expr.function
    if function.name in _DIVISIONS:
        emitter.seen.append(None)
    if function is LIST or function is STACK:
        return _array(emitter, expr)
    args = [emitter.emit(arg) for arg in expr.args]
    if function is ROW:
        return typed(f"row({', '.join(map(order_key, args))})", BOOLEAN, *args)
    if isinstance(function, operate.LibraryFunction):
        assert function.resolved is not None
        return library_call(emitter.emission, function.resolved, args)
    return _operated(emitter.emission, function, expr.type, args)


_DIVISIONS = frozenset({"/", "%", "div", "mod"})


def _operated(emission: Emission, function: n.Function, result: SqlType, args: list[Typed]) -> Typed:
    """An operator by the text that stands beside its function."""
    duck = function.duck
    if not isinstance(duck, str):
        return duck(emission, *args)
    assert duck, function.name
    return _bare(typed(duck.format(*[x.sql for x in args]), result, *args))


_MACRO = re.compile(r"(pg_\w+)\(")
_BARE_WEIGHT = 300
"""How long an expression may be, in operands, whose own operands are there several times."""


def _bare(x: Typed) -> Typed:
    """With the form of its macro that is faster, where its operands are short."""
    macro = _MACRO.match(x.sql)
    if macro is None or macro[1] not in BARE or x.weight * copies(macro[1]) > _BARE_WEIGHT:
        return x
    return replace(x, sql=f"{macro[1]}_bare{x.sql[macro.end() - 1 :]}", weight=x.weight * copies(macro[1]))


def library_call(emission: Emission, found: Resolved, args: list[Typed]) -> Typed:
    """A call of a function of the library that is resolved, its arguments being of its types."""
    if not found.routine.setof:
        return casts.invoke(emission, found, args)
    if any(one.setof for one in args):
        raise SqlError("0A000", "a set-returning function within another one is not supported")
    given = casts.invoke(emission, found, args)
    if found.routine.columns:
        given = replace(given, type=SqlType(Base.RECORD, row=found.routine.columns))
    return replace(given, sql=f"unnest({given.sql})", setof=True)


def _chain(emitter: Emitter, expr: n.Chain) -> Typed:
    """Operators, one after another."""
    value = emitter.emit(expr.first)
    for function, operand, type_ in expr.steps:
        if operand is None:
            value = casts.converted(emitter.emission, value, type_)
            continue
        emitter.operands.append(value)
        step = n.Call(type_, function, (n.CaseOperand(type_), operand))
        value = emitter.emit(step)
        emitter.operands.pop()
    return value


def _array(emitter: Emitter, expr: n.Call) -> Typed:
    """ARRAY[...] of values, or of arrays."""
    parts = _of_one_form(emitter, expr.args)
    if len(_dimensions(expr.args, parts)) > 1:
        return _array_of_different(parts)
    first = parts[0]
    if first.array:
        found = operate.library_call(
            "array_stacked", [*map(entered, parts)], emitter.emission.params, first.array + 1
        )
        assert found is not None
        return emitter.emit(found)
    if any(part.scale_sql is not None for part in parts):  # each element has a display scale of its own
        parts = [as_text(part) for part in parts]
        first = parts[0]
    found_ = typed(f"[{', '.join(part.sql for part in parts)}]", first.type, *parts, dec=first.dec)
    return replace(found_, array=1)


def _array_of_different(parts: list[Typed]) -> Typed:
    """ARRAY[...] of arrays of different dimensions: it is empty if all are, or NULL; else 2202E."""
    deepest = max(parts, key=lambda part: part.array)
    none = " AND ".join(f"coalesce(len({part.sql}), 0) = 0" for part in parts)
    name = duck_name(array_of(deepest.type, deepest.array + 1))
    sql = f"CASE WHEN {none} THEN [] ELSE error('SQLSTATE 2202E: {RAGGED}') END"
    return replace(typed(f"CAST({sql} AS {name})", deepest.type, *parts), array=deepest.array + 1)


# ---------------------------------------------------------------------------- the clock and the dice


_CLOCKS = {
    what: Typed(f"make_timestamptz(CAST(${mark} AS BIGINT))", TIMESTAMPTZ)
    for what, mark in (("transaction", TRANSACTION_US), ("statement", STATEMENT_US))
}
"""The clock is not read here: its moments come as parameters."""
_RANDOM = {
    "clock_timestamp": _CLOCKS["statement"],
    "random": Typed("random()", DOUBLE, volatile=True),
    "gen_random_uuid": Typed("gen_random_uuid()", UUID, volatile=True),
}


def _now(emitter: Emitter, expr: n.Now) -> Typed:
    return _CLOCKS[expr.what]


def _random(emitter: Emitter, expr: n.Random) -> Typed:
    return _RANDOM[expr.name]


# ---------------------------------------------------------------------------- comparisons


def comparison_texts(emission: Emission, left: n.Expr, a: Typed, right: n.Expr, b: Typed) -> tuple[str, str]:
    """Both sides of a comparison, ``a`` and ``b`` being their texts: a parameter is brought to the other's
    DECIMAL."""
    if _meets(left, b):
        assert isinstance(left, n.Param)
        assert b.dec is not None
        return emission.surrogate(left.number, *b.dec), b.sql
    if _meets(right, a):
        assert isinstance(right, n.Param)
        assert a.dec is not None
        return a.sql, emission.surrogate(right.number, *a.dec)
    return comparable_texts(emission, a, b)


def _meets(expr: n.Expr, other: Typed) -> bool:
    """Whether it is a parameter that is computed as a DECIMAL that compares with ``other``."""
    return (
        isinstance(expr, n.Param)
        and expr.type.base is other.base is Base.NUMERIC
        and other.dec is not None
        and other.dec[0] <= 36
    )


def _comparison(emitter: Emitter, expr: n.Comparison) -> Typed:
    a, b = emitter.emit(expr.left), emitter.emit(expr.right)
    left, right = comparison_texts(emitter.emission, expr.left, a, expr.right, b)
    return typed(f"({left} {expr.op} {right})", BOOLEAN, a, b)


def _distinct(emitter: Emitter, expr: n.Distinct) -> Typed:
    a, b = emitter.emit(expr.left), emitter.emit(expr.right)
    left, right = comparison_texts(emitter.emission, expr.left, a, expr.right, b)
    return typed(f"({left} IS {'NOT ' if expr.negated else ''}DISTINCT FROM {right})", BOOLEAN, a, b)


def _in(emitter: Emitter, expr: n.In) -> Typed:
    if expr.negated:
        return _opposite(emitter, expr)
    if expr.items and isinstance(expr.items[0], n.Elements):
        return _in_array(emitter, expr, expr.items[0])
    values = [emitter.emit(item) for item in expr.items]
    if not values:
        return typed("false", BOOLEAN, emitter.emit(expr.arg))
    return once(emitter.emit(expr.arg), lambda x: _in_list(emitter.emission, expr, x, values))


def _in_array(emitter: Emitter, expr: n.In, elements: n.Elements) -> Typed:
    """IN over a parameter that is an array."""
    array = n.Param(array_of(elements.type), elements.number)
    test = n.Comparison(BOOLEAN, "=", n.CaseOperand(expr.arg.type), n.Element(elements.type))
    return emitter.emit(n.Quantified(BOOLEAN, expr.arg, array, test, False))


def _in_list(emission: Emission, expr: n.In, x: Typed, values: list[Typed]) -> Typed:
    items = zip(expr.items, values, strict=True)
    pairs = [comparison_texts(emission, expr.arg, x, item, v) for item, v in items]
    lefts = {left for left, _ in pairs}
    if len(lefts) == 1:
        return typed(f"({lefts.pop()} IN ({', '.join(r for _, r in pairs)}))", BOOLEAN, x, *values)
    return typed("(" + " OR ".join(f"{a} = {b}" for a, b in pairs) + ")", BOOLEAN, x, *values)


def _between(emitter: Emitter, expr: n.Between) -> Typed:
    before = len(emitter.seen)
    x, low, high = emitter.emit(expr.arg), emitter.emit(expr.low), emitter.emit(expr.high)
    least = " >= ".join(comparison_texts(emitter.emission, expr.arg, x, expr.low, low))
    most = " <= ".join(comparison_texts(emitter.emission, expr.arg, x, expr.high, high))
    text = _joined("AND", [f"({least})", f"({most})"], [emitter.divides(before)] * 2)
    return typed(text, BOOLEAN, x, low, high)


# ---------------------------------------------------------------------------- logic


def _logic(emitter: Emitter, expr: n.And | n.Or) -> Typed:
    shared = _shared(expr)
    if shared is not None and n.is_volatile(shared):
        return once(emitter.emit(shared), lambda x: _over(emitter, expr, x))
    parts, divide = [], []
    for arg in expr.args:
        before = len(emitter.seen)
        parts.append(emitter.emit(arg))
        divide.append(emitter.divides(before))
    word = "AND" if isinstance(expr, n.And) else "OR"
    return typed(_joined(word, [part.sql for part in parts], divide), BOOLEAN, *parts)


def _shared(expr: n.And | n.Or) -> n.Expr | None:
    """What all parts compare, where that is one node: x < ANY (ARRAY[...])."""
    first = expr.args[0]
    if not isinstance(first, n.Comparison):
        return None
    left = first.left
    return left if all(isinstance(one, n.Comparison) and one.left is left for one in expr.args) else None


def _over(emitter: Emitter, expr: n.And | n.Or, x: Typed) -> Typed:
    """The same comparisons of a value that is computed once."""
    emitter.operands.append(x)
    parts = tuple([structs.replace(one, left=n.CaseOperand(full_type(x))) for one in expr.args])
    found = emitter.emit(structs.replace(expr, args=parts))
    emitter.operands.pop()
    return found


def _joined(word: str, texts: list[str], divide: list[bool]) -> str:
    """``texts`` joined by AND or OR; a division is not evaluated when what is before it decides.

    DuckDB reorders conditions, and what stands before a division often guards it.
    """
    joint, guard = f" {word} ", "FALSE" if word == "AND" else "TRUE"
    end, rest = len(texts), ""
    for i in range(len(texts) - 1, 0, -1):  # each text is there twice, however many divisions there are
        if divide[i]:
            rest = joint.join(texts[i:end]) + rest
            before = joint.join(texts[_last_division(divide, i) : i])
            rest, end = f"{joint}CASE WHEN ({before}) IS NOT {guard} THEN ({rest}) END", i
    return "(" + joint.join(texts[:end]) + rest + ")"


def _last_division(divide: list[bool], before: int) -> int:
    """Where the last text that divides begins; 0 where none does."""
    return next((i for i in range(before - 1, 0, -1) if divide[i]), 0)


def _divides(node: exp.Expression) -> bool:
    found = node.find_all(exp.Div, exp.IntDiv, exp.Mod, exp.Anonymous)
    return any(not isinstance(one, exp.Anonymous) or str(one.this).lower() in _DIVISIONS for one in found)


def _not(emitter: Emitter, expr: n.Not) -> Typed:
    x = emitter.emit(expr.arg)
    return typed(f"(NOT {x.sql})", BOOLEAN, x)


def _like(emitter: Emitter, expr: n.Like) -> Typed:
    if expr.negated:
        return _opposite(emitter, expr)
    a, b = emitter.emit(expr.arg), emitter.emit(expr.pattern)
    left, right = (f"pg_lower({a.sql})", f"pg_lower({b.sql})") if expr.insensitive else (a.sql, b.sql)
    mark = expr.escape
    if not isinstance(mark, n.Const) or not isinstance(mark.value, str):
        raise SqlError("0A000", "ESCAPE of anything but a literal is not supported")
    if isinstance(expr.pattern, n.Const) and mark.value not in str(expr.pattern.value):
        # What DuckDB knows to be a prefix or a part is looked for faster.
        return typed(f"({left} LIKE {right})", BOOLEAN, a, b)
    return typed(f"({left} LIKE {right} ESCAPE {quote(mark.value)})", BOOLEAN, a, b)


def _opposite(emitter: Emitter, expr: n.In | n.Like) -> Typed:
    """NOT of the same node that is not negated: what GROUP BY names is found there."""
    x = emitter.emit(n.opposite(expr))
    return typed(f"(NOT {x.sql})", BOOLEAN, x)


def _is_null(emitter: Emitter, expr: n.IsNull) -> Typed:
    x = emitter.emit(expr.arg)
    return typed(f"({x.sql} IS {'NOT ' if expr.negated else ''}NULL)", BOOLEAN, x)


def _is_truth(emitter: Emitter, expr: n.IsTruth) -> Typed:
    x = emitter.emit(expr.arg)
    word = "IS DISTINCT FROM" if expr.negated else "IS NOT DISTINCT FROM"
    return typed(f"({x.sql} {word} {'true' if expr.truth else 'false'})", BOOLEAN, x)


# ---------------------------------------------------------------------------- one of several


NULL = Typed("NULL", UNKNOWN, null=True)
"""NULL whose type the others decide that it stands beside."""


def aligned(emitter: Emitter, exprs: Sequence[n.Expr], what: str, *, loose: bool = False) -> list[Typed]:
    """:func:`_of_one_form`; NotColumnar for arrays of different dimensions, of which DuckDB makes no list."""
    parts = _of_one_form(emitter, exprs, loose=loose)
    if len(_dimensions(exprs, parts)) > 1:
        raise n.NotColumnar(f"{what} of arrays of different dimensions is not supported")
    return parts


def _of_one_form(emitter: Emitter, exprs: Sequence[n.Expr], *, loose: bool = False) -> list[Typed]:
    """Parts of one type in one form: NUMERICs in a DECIMAL that keeps the display scale of each, unless
    ``loose``."""
    if exprs[0].type.base is Base.NUMERIC:
        parts = [NULL if _is_null_constant(one) else emitter.emit(one) for one in exprs]
        return casts.align(emitter.emission, parts, exprs[0].type, loose=loose)
    return [emitter.emit(one) for one in exprs]


def _dimensions(exprs: Sequence[n.Expr], parts: Sequence[Typed]) -> set[int]:
    """The numbers of dimensions of those that are not NULL."""
    return {part.array for part, one in zip(parts, exprs, strict=True) if not _is_null_constant(one)}


def _is_null_constant(expr: n.Expr) -> bool:
    return isinstance(expr, n.Const) and expr.value is None


def _of_rows(x: Typed, what: str) -> Typed:
    if x.setof:
        raise SqlError("0A000", f"set-returning functions are not allowed in {what}")
    return x


def _case(emitter: Emitter, expr: n.Case) -> Typed:
    if expr.operand is None:
        return _branches(emitter, expr, None)
    return once(emitter.emit(expr.operand), lambda subject: _branches(emitter, expr, subject))


def _branches(emitter: Emitter, expr: n.Case, subject: Typed | None) -> Typed:
    if subject is not None:
        emitter.operands.append(subject)
    conditions = [emitter.emit(when) for when, _ in expr.whens]
    parts = aligned(emitter, [expr.default, *(then for _, then in expr.whens)], "CASE")
    if subject is not None:
        emitter.operands.pop()
    last, *results = steady(parts, *conditions)

    def form(pick: Callable[[Typed], Any]) -> str:
        whens = "".join(f" WHEN {c.sql} THEN {pick(v)}" for c, v in zip(conditions, results, strict=True))
        return f"CASE{whens} ELSE {pick(last)} END"

    result = typed(form(lambda v: v.sql), last.type, *conditions, *results, last, dec=last.dec)
    scale = None if last.scale_sql is None else form(lambda v: v.scale_sql)
    return _of_rows(replace(result, scale_sql=scale, array=last.array), "CASE")


def _operand(emitter: Emitter, expr: n.CaseOperand) -> Typed:
    return emitter.operands[-1]


def _coalesce(emitter: Emitter, expr: n.Coalesce) -> Typed:
    parts = steady(aligned(emitter, expr.args, "COALESCE"))
    first = parts[0]
    result = typed(f"coalesce({', '.join(p.sql for p in parts)})", first.type, *parts, dec=first.dec)
    if first.scale_sql is not None:
        whens = "".join(f" WHEN {p.sql} IS NOT NULL THEN {p.scale_sql}" for p in parts)
        result = replace(result, scale_sql=f"CASE{whens} END")
    return _of_rows(_of_shape(result, first), "COALESCE")


def _of_shape(x: Typed, part: Typed) -> Typed:
    """``x`` with the dimensions of ``part``."""
    return replace(x, array=part.array) if part.array else x


def _extreme(emitter: Emitter, expr: n.Extreme) -> Typed:
    word = "greatest" if expr.greatest else "least"
    parts = steady(aligned(emitter, expr.args, word.upper()))
    first = parts[0]
    if first.is_text_numeric:
        return typed(f"pg_num{word}([{', '.join(p.sql for p in parts)}])", first.type, *parts)
    result = typed(f"{word}({', '.join(p.sql for p in parts)})", first.type, *parts, dec=first.dec)
    if first.scale_sql is not None:
        values = {f"p{i}": p.sql for i, p in enumerate(parts)} | {"r": result.sql}
        values |= {f"s{i}": str(p.scale_sql) for i, p in enumerate(parts)}
        whens = "".join(f" WHEN v.p{i} = v.r THEN v.s{i}" for i in range(len(parts)))
        result = replace(result, scale_sql=let(values, f"CASE{whens} END"))
    return _of_shape(result, first)


def _nullif(emitter: Emitter, expr: n.NullIf) -> Typed:
    """Both operands may be long, and are named in the text more than once."""
    a, other = emitter.emit(expr.left), expr.comparison.right
    b = emitter.emit(other)
    constant = isinstance(other, n.Const | n.Param)
    emitter.operands.append(replace(a, sql="v.a"))
    subject = emitter.emit(expr.comparison.left)
    emitter.operands.pop()
    inside = b if constant else replace(b, sql="v.b")
    left, right = comparison_texts(emitter.emission, expr.comparison.left, subject, other, inside)
    values = {"a": a.sql} | ({} if constant else {"b": b.sql})
    sql = let(values, f"CASE WHEN {left} = {right} THEN NULL ELSE v.a END")
    return replace(typed(sql, a.type, a, b, dec=a.dec), scale_sql=a.scale_sql, array=a.array)


def _field(emitter: Emitter, expr: n.RowField) -> Typed:
    """A row is the list of its fields' texts."""
    row = emitter.emit(expr.row)
    one = typed(f"({row.sql})[{expr.place + 1}]", TEXT, row)
    if expr.type != TEXT:
        one = casts.invoke(emitter.emission, Resolved("cast", 0, (TEXT,), expr.type), [one])
    return one


def _collated(emitter: Emitter, expr: n.Collated) -> Typed:
    x, name = emitter.emit(expr.arg), engine.collation(expr.name)
    return typed(f"({x.sql} COLLATE {name})", expr.type, x)


def _sequence_call(emitter: Emitter, expr: n.SequenceCall) -> Typed:
    """Queries that call one are taken apart before (``plan.sequences``); elsewhere there is none."""
    raise no_function(expr.name, [arg.type for arg in expr.args])


def _program_call(emitter: Emitter, expr: n.ProgramCall) -> Typed:
    raise n.NotColumnar(f"function {expr.name} of the database is not supported in this place of a query")


EMITTERS: dict[type[n.Expr], Callable[[Emitter, Any], Typed]] = {
    Emitted: _text,
    n.ColumnRef: _column,
    n.Const: _constant,
    n.Param: _parameter,
    n.Cast: _cast,
    n.Call: _call,
    n.Chain: _chain,
    n.Now: _now,
    n.Random: _random,
    n.Like: _like,
    n.Comparison: _comparison,
    n.Distinct: _distinct,
    n.In: _in,
    n.Between: _between,
    n.And: _logic,
    n.Or: _logic,
    n.Not: _not,
    n.IsNull: _is_null,
    n.IsTruth: _is_truth,
    n.Case: _case,
    n.CaseOperand: _operand,
    n.Coalesce: _coalesce,
    n.Extreme: _extreme,
    n.NullIf: _nullif,
    n.RowField: _field,
    n.SequenceCall: _sequence_call,
    n.ProgramCall: _program_call,
    n.Collated: _collated,
}


# ---------------------------------------------------------------------------- of texts there are


def coerce(emission: Emission, x: Typed, target: SqlType) -> Typed:
    """``x`` as ``target`` where that needs no explicit cast; SqlError 42804 otherwise."""
    return _changed(emission, x, lambda expr: coerced(expr, target, "implicit", emission.params))


def _changed(emission: Emission, x: Typed, change: Callable[[n.Expr], n.Expr]) -> Typed:
    expr = entered(x)
    found = change(expr)
    return x if found is expr else emit(emission, found)


def unify(emission: Emission, parts: Sequence[Typed], what: str, *, loose: bool = False) -> list[Typed]:
    """``parts`` in one type and one form.

    NUMERICs of different scales meet in a DECIMAL that keeps each row's display scale in ``scale_sql``;
    ``loose`` drops that (where rows are compared anyway).
    """
    _, exprs = unified([*map(entered, parts)], emission.params, what)
    return aligned(Emitter(emission), exprs, what, loose=loose)


def invoke(emission: Emission, found: Resolved, arguments: list[Typed]) -> Typed:
    """A call of a function that is resolved; its arguments are brought to its types."""
    return casts.invoke(
        emission, found, [coerce(emission, x, type_) for x, type_ in zip(arguments, found.args, strict=True)]
    )


def call(
    emission: Emission,
    name: str,
    arguments: list[Typed],
    dimensions: int | None = None,
) -> Typed | None:
    """The library's function of that name over these arguments; None when there is none.

    ``dimensions`` are those of the array that it gives, where they are not its arguments'.
    """
    found = operate.library_call(name, [*map(entered, arguments)], emission.params, dimensions)
    return None if found is None else emit(emission, found)


def gathered(emission: Emission, rows: Typed) -> Typed:
    """What ``array_agg`` gives of a list of arrays."""
    found = call(emission, "array_gathered", [rows])
    assert found is not None
    return found
