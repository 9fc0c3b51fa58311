"""Binding of generate_series() and unnest(), which syntax has classes of; others are the library's.

A call becomes a :class:`~herdpy_sql.expr.nodes.SetOf`, one row of which is the value. Above ``binder``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import as_array, coerce, common_type
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.types import INTEGER, INTERVAL, NUMERIC, TIMESTAMP, TIMESTAMPTZ, Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.expr.binder import ExprBinder, Handler

SERIES = (exp.GenerateSeries, exp.ExplodingGenerateSeries)
_TIMES = frozenset({Base.DATE, Base.TIMESTAMP, Base.TIMESTAMPTZ})
_INTEGERS = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT})


def series(binder: ExprBinder, node: exp.Expression) -> n.SetOf:
    """generate_series over integers, NUMERIC or times; SqlError 42883 for other arguments."""
    nodes = [node.args[part] for part in ("start", "end", "step") if node.args.get(part) is not None]
    parts = [binder.bind(one) for one in nodes]
    types = [part.type for part in parts]
    of = _series_type(types)
    if of.base not in _TIMES:
        given = [coerce(part, of, "implicit", binder.params) for part in parts]
        return n.SetOf(of, "generate_series", tuple(given))
    if len(parts) < 3:
        raise no_function("generate_series", types)
    given = [coerce(part, of, "explicit", binder.params) for part in parts[:2]]
    given.append(coerce(parts[2], INTERVAL, "implicit", binder.params))
    return n.SetOf(of, "generate_series", tuple(given))


def _series_type(types: Sequence[SqlType]) -> SqlType:
    bases = [one.base for one in types[:2]]
    if any(base in _TIMES for base in bases):
        dates = all(base is Base.DATE for base in bases)
        return TIMESTAMPTZ if dates or Base.TIMESTAMPTZ in bases else TIMESTAMP
    if all(one.base is Base.UNKNOWN for one in types):
        return INTEGER
    found = common_type(types, "generate_series")
    if found.base is Base.NUMERIC:
        return NUMERIC
    if found.base not in _INTEGERS:
        raise no_function("generate_series", types)
    return found


def unnested(binder: ExprBinder, node: Any) -> n.SetOf:
    """The elements of an array. SqlError 42883 for what is none, 42725 for a literal without a type."""
    array = as_array(binder.bind(node), binder.params)
    if array.type.base is Base.UNKNOWN:
        raise SqlError("42725", "function unnest(unknown) is not unique")
    if array.type.base is not Base.ARRAY:
        raise no_function("unnest", [array.type])
    return n.SetOf(array.type.element_type, "unnest", (array,))


def _unnest(binder: ExprBinder, node: exp.Explode) -> n.Expr:
    binder.scope.refuse_rows()
    if node.expressions:  # several arrays beside each other are a relation, of FROM alone
        raise no_function("unnest", [binder.bind(one).type for one in (node.this, *node.expressions)])
    return unnested(binder, node.this)


def _series(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    binder.scope.refuse_rows()
    return series(binder, node)


SET_RETURNING: dict[type, Handler] = {**dict.fromkeys(SERIES, _series), exp.Explode: _unnest}
