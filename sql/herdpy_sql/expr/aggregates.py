"""Aggregates: what each takes and gives, and how a call of one is bound.

``AGGREGATES`` has every aggregate by its name: which arguments it has, what it makes of them, of which
types own plans accumulate it (``execute.query``). DuckDB's text of each is in ``columnar.aggregates``. A call
becomes a :class:`~herdpy_sql.expr.nodes.Aggregate`, with DISTINCT, FILTER, ORDER BY and WITHIN GROUP. Above
``binder``, whose handlers these are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import Params, coerce, settle
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.resolve import can_coerce, no_function
from herdpy_sql.expr.rows import row_document, row_value
from herdpy_sql.expr.syntax import AGGREGATE_CLASSES, ORDERED_SET_CLASSES, WINDOW_CLASSES, is_row
from herdpy_sql.types import BITS, FACTS, Base, SqlType, array_of, need_equality, need_ordering

if TYPE_CHECKING:
    from herdpy_sql.expr.binder import ExprBinder, Handler

_INTEGERS = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT})
_EXACT = _INTEGERS | {Base.NUMERIC}
_TEXTS = frozenset({Base.TEXT, Base.VARCHAR, Base.CHAR})
_ORDERED = _EXACT | _TEXTS | {
    Base.REAL, Base.DOUBLE, Base.DATE, Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ, Base.ENUM,
    Base.INET, Base.CIDR, Base.MACADDR, Base.MACADDR8, *BITS,
}  # fmt: skip
"""Types whose datums are ordered, as Python has it, as SQL orders them."""
_HASHED = _ORDERED - {Base.REAL, Base.DOUBLE}
"""Types whose datums are equal, as Python has it, where SQL has them equal."""
_WITHOUT_EXTREMES = frozenset({"B", "U", "V"})
"""Categories of types that PostgreSQL has no min() and max() for."""

Fitted = tuple[list[n.Expr], SqlType]
Fit = Callable[[list[n.Expr], Params], Fitted | None]


@dataclass(frozen=True, slots=True)
class AggregateKind:
    """One aggregate.

    Attributes:
        fit: the arguments as it takes them, and the type of the result; None where it has no such arguments.
        own: the types of an argument that own plans accumulate exactly (None: of any).
        own_distinct: the same with DISTINCT.
    """

    fit: Fit
    own: frozenset[Base] | None = frozenset()
    own_distinct: frozenset[Base] = frozenset()

    def is_own(self, call: n.Aggregate) -> bool:
        """Whether own plans accumulate it."""
        if call.order:
            return False
        types = self.own_distinct if call.distinct else self.own
        return types is None or all(arg.type.base in types for arg in call.args)


AGGREGATES: dict[str, AggregateKind] = {}


def _count(args: list[n.Expr], params: Params) -> Fitted | None:
    return ([settle(arg, params) for arg in args], t.BIGINT) if len(args) < 2 else None


def _by_type(name: str, results: dict[Base, SqlType]) -> Fit:
    """An aggregate of one argument, whose type says that of the result."""

    def fit(args: list[n.Expr], params: Params) -> Fitted | None:
        if len(args) != 1:
            return None
        base = args[0].type.base
        if base is Base.UNKNOWN:
            raise SqlError("42725", f"function {name}(unknown) is not unique")
        return (args, results[base]) if base in results else None

    return fit


def _extreme(args: list[n.Expr], params: Params) -> Fitted | None:
    if len(args) != 1:
        return None
    arg = settle(args[0], params)
    if FACTS[arg.type.base].category in _WITHOUT_EXTREMES:
        return None
    if arg.type.base is Base.VARCHAR:
        return [arg], t.TEXT
    if arg.type.base is Base.CIDR:
        return [coerce(arg, t.INET, "implicit", params)], t.INET
    return [arg], arg.type if arg.type.base in {Base.CHAR, Base.ARRAY} else arg.type.plain


def _taking(*types: SqlType, result: SqlType) -> Fit:
    """An aggregate of arguments of these types."""

    def fit(args: list[n.Expr], params: Params) -> Fitted | None:
        if len(args) != len(types):
            return None
        pairs = list(zip(args, types, strict=True))
        if not all(can_coerce(arg.type.base, wanted.base) for arg, wanted in pairs):
            return None
        return [coerce(arg, wanted, "implicit", params) for arg, wanted in pairs], result

    return fit


def _bits(args: list[n.Expr], params: Params) -> Fitted | None:
    if len(args) == 1 and args[0].type.base is Base.BIT:
        raise SqlError("0A000", "bit_and, bit_or and bit_xor of bit are not supported")
    return (args, args[0].type) if len(args) == 1 and args[0].type.base in _INTEGERS else None


def _joined(args: list[n.Expr], params: Params) -> Fitted | None:
    if len(args) == 2 and args[0].type.base is Base.BYTEA:
        raise SqlError("0A000", f"string_agg of {t.BYTEA} is not supported")
    return _taking(t.TEXT, t.TEXT, result=t.TEXT)(args, params)


def _listed(args: list[n.Expr], params: Params) -> Fitted | None:
    if len(args) != 1:
        return None
    arg = settle(args[0], params)
    return [arg], array_of(arg.type)


def _document(result: SqlType) -> Fit:
    def fit(args: list[n.Expr], params: Params) -> Fitted | None:
        return ([settle(args[0], params)], result) if len(args) == 1 else None

    return fit


def _document_of_pairs(result: SqlType) -> Fit:
    def fit(args: list[n.Expr], params: Params) -> Fitted | None:
        if len(args) != 2:
            return None
        return [coerce(args[0], t.TEXT, "explicit", params), settle(args[1], params)], result

    return fit


def _register() -> None:
    exact = dict.fromkeys(_EXACT, t.NUMERIC)
    sums = exact | {Base.SMALLINT: t.BIGINT, Base.INTEGER: t.BIGINT, Base.INTERVAL: t.INTERVAL}
    sums |= {Base.REAL: t.REAL, Base.DOUBLE: t.DOUBLE}
    spreads = exact | {Base.REAL: t.DOUBLE, Base.DOUBLE: t.DOUBLE}
    means = spreads | {Base.INTERVAL: t.INTERVAL}
    AGGREGATES["count"] = AggregateKind(_count, None, _HASHED)
    AGGREGATES["sum"] = AggregateKind(_by_type("sum", sums), _EXACT, _INTEGERS)
    AGGREGATES["avg"] = AggregateKind(_by_type("avg", means), _EXACT, _INTEGERS)
    for name in ("min", "max"):
        AGGREGATES[name] = AggregateKind(_extreme, _ORDERED, _ORDERED)
    for name in ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"):
        AGGREGATES[name] = AggregateKind(_by_type(name, spreads))
    for name in ("bool_and", "every", "bool_or"):
        AGGREGATES[name] = AggregateKind(_taking(t.BOOLEAN, result=t.BOOLEAN))
    for name in ("bit_and", "bit_or", "bit_xor"):
        AGGREGATES[name] = AggregateKind(_bits)
    for name in (
        "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx",
        "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy",
    ):  # fmt: skip
        AGGREGATES[name] = AggregateKind(_taking(t.DOUBLE, t.DOUBLE, result=t.DOUBLE))
    AGGREGATES["regr_count"] = AggregateKind(_taking(t.DOUBLE, t.DOUBLE, result=t.BIGINT))
    AGGREGATES["string_agg"] = AggregateKind(_joined)
    AGGREGATES["array_agg"] = AggregateKind(_listed)
    AGGREGATES["json_agg"] = AggregateKind(_document(t.JSON))
    AGGREGATES["jsonb_agg"] = AggregateKind(_document(t.JSONB))
    AGGREGATES["json_object_agg"] = AggregateKind(_document_of_pairs(t.JSON))
    AGGREGATES["jsonb_object_agg"] = AggregateKind(_document_of_pairs(t.JSONB))


_register()


# ---------------------------------------------------------------------------- calls


@dataclass(slots=True)
class _Written:
    """A call as it is written."""

    name: str
    args: list[Any]
    order: exp.Order | None = None
    distinct: bool = False


def aggregate(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """An aggregate of the rows around the expression. SqlError 42803 where none may stand."""
    binder.scope.refuse_aggregate()
    return bind_aggregate(binder, node)


def bind_aggregate(binder: ExprBinder, node: Any) -> n.Aggregate:
    """The aggregate that ``node`` calls; SqlError 42809 for other functions."""
    test: n.Expr | None = None
    word = "OVER"  # without one of the two, a call that is no aggregate does not come here
    if isinstance(node, exp.Filter):
        test, node, word = _filter(binder, node), node.this, "FILTER"
    if isinstance(node, exp.WithinGroup):
        return _ordered_set(binder, node, test)
    if _name(node) not in AGGREGATES:
        raise _no_aggregate(binder, node, word)
    written = _written(node)
    name = written.name
    documents = [row_document(binder, one) if name in _DOCUMENTS else None for one in written.args]
    args = [
        _argument(binder, name, one) if document is None else document
        for one, document in zip(written.args, documents, strict=True)
    ]
    for arg in args if written.distinct else ():
        need_equality(arg.type)
    found = AGGREGATES[name].fit(args, binder.params)
    if found is None:
        raise no_function(written.name, [arg.type for arg in args])
    fitted, result = found
    keys = () if written.order is None else order_items(binder, written.order)
    return n.Aggregate(result, name, tuple(fitted), keys, test, written.distinct)


def _filter(binder: ExprBinder, node: exp.Filter) -> n.Expr:
    """FILTER's condition, in which no aggregate, window or set-returning function may stand."""
    scope = binder.scope
    around, scope.clause = scope.clause, "FILTER"
    test = binder.condition(node.expression.this, "FILTER")
    scope.clause = around
    return test


def _name(node: Any) -> str:
    """The aggregate that a call names; of other calls what they name, or nothing."""
    return (
        str(node.this).lower() if isinstance(node, exp.Anonymous) else AGGREGATE_CLASSES.get(type(node), "")
    )


def _no_aggregate(binder: ExprBinder, node: Any, word: str) -> SqlError:
    """The error of FILTER or OVER behind what is no aggregate; SqlError 42883 for a call of nothing."""
    if type(node) in WINDOW_CLASSES:
        return SqlError("42809", f"window function {WINDOW_CLASSES[type(node)]} requires an OVER clause")
    is_call = isinstance(node, exp.Func)
    if not is_call:
        return SqlError("42601", f'syntax error at or near "{word}"')
    binder.bind(node)
    what = "an aggregate function" if word == "FILTER" else "a window function nor an aggregate function"
    return SqlError("42809", f"{word} specified, but {output_name(node)} is not {what}")


def _written(node: Any) -> _Written:
    name = _name(node)
    if not isinstance(node, exp.Anonymous):
        return _of_class(name, node)
    if node.expressions and isinstance(node.expressions[-1], exp.Order):
        order = node.expressions[-1]
        return _Written(name, [*node.expressions[:-1], order.this], order)
    return _Written(name, node.expressions)


def _of_class(name: str, node: Any) -> _Written:
    """A call that sqlglot has a class of: what stands where depends on what there is."""
    first, written = node.this, _Written(name, [])
    if isinstance(first, exp.Order):
        first, written.order = first.this, first
    if isinstance(first, exp.Distinct):
        written.distinct, written.args = True, list(first.expressions)
        if len(written.args) == 1 and isinstance(written.args[0], exp.Order):
            written.order, written.args = written.args[0], [written.args[0].this]
    elif first is not None and not isinstance(first, exp.Star):
        written.args = [first]
    separator = node.args.get("separator")
    if isinstance(separator, exp.Order):
        written.order, separator = separator, separator.this
    written.args += [one for one in (separator, node.args.get("expression")) if one is not None]
    if name != "count" or not isinstance(first, exp.Star):
        written.args += node.expressions
    return written


_DOCUMENTS = frozenset({"json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"})


def _argument(binder: ExprBinder, name: str, node: Any) -> n.Expr:
    if name == "count" and is_row(node):
        return row_value(binder, node)
    return binder.bind(node)


def order_items(binder: ExprBinder, order: exp.Order) -> tuple[n.OrderItem, ...]:
    """ORDER BY of an aggregate or a window. SqlError 42883 for a type without an order."""
    return tuple([_sort_key(one, binder.typed(one.this)) for one in order.expressions])


def _sort_key(ordered: exp.Expression, key: n.Expr) -> n.OrderItem:
    first = ordered.args.get("nulls_first")
    descending = bool(ordered.args.get("desc"))
    need_ordering(key.type)
    return n.OrderItem(key, descending, descending if first is None else bool(first))


def _ordered_set(binder: ExprBinder, node: exp.WithinGroup, test: n.Expr | None) -> n.Aggregate:
    """PERCENTILE_CONT, PERCENTILE_DISC and MODE WITHIN GROUP (ORDER BY ...)."""
    name = ORDERED_SET_CLASSES.get(type(node.this))
    if name is None:
        raise SqlError("0A000", "this ordered-set aggregate is not supported")
    if len(node.expression.expressions) != 1:
        raise SqlError("0A000", f"{name} over several columns is not supported")
    (ordered,) = node.expression.expressions
    key = binder.typed(ordered.this)
    args: tuple[n.Expr, ...] = ()
    if name != "mode":
        args = (coerce(binder.bind(node.this.this), t.DOUBLE, "implicit", binder.params),)
    if name == "percentile_cont" and key.type.base is not Base.INTERVAL:
        key = coerce(key, t.DOUBLE, "implicit", binder.params)
    return n.Aggregate(key.type, name, args, (_sort_key(ordered, key),), test, False)


def _grouping(binder: ExprBinder, node: exp.Grouping) -> n.Expr:
    return n.Grouping(t.INTEGER, tuple([binder.bind(one) for one in node.expressions]))


AGGREGATE_CALLS: dict[type, Handler] = {
    **dict.fromkeys((*AGGREGATE_CLASSES, exp.Filter, exp.WithinGroup), aggregate),
    exp.Grouping: _grouping,
}
