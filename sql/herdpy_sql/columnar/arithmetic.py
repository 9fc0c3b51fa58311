"""Operators of the columnar engine: ``+ - * / % ^``, bits and shifts, and negation.

``expr.operators`` says which candidate the operands mean, which types they become, and what it is in DuckDB;
what it has not is the library's.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import casts, library
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.literals import number_literal
from herdpy_sql.columnar.macros import BARE, copies
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.duck import Typed, typed
from herdpy_sql.expr.operators import BINARY, UNARY
from herdpy_sql.expr.resolve import Signature, choose, no_function, no_operator
from herdpy_sql.types import SqlType

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope


def operate(binder: Binder, symbol: str, *operands: Typed) -> Typed:
    """``a symbol b``, or ``symbol a``; SqlError 42883 or 42725."""
    types = types_of(*operands)
    table = BINARY if len(operands) == 2 else UNARY
    chosen = choose(table.get(symbol, ()), [one.base for one in types], f"operator {symbol}")
    if chosen is not None:
        return _emitted(binder, chosen, operands)
    found = library.call(binder, symbol, list(operands)) if len(operands) == 2 else None
    if found is None:
        raise no_operator(symbol, types)
    return found


def _emitted(binder: Binder, chosen: Signature, operands: tuple[Typed, ...]) -> Typed:
    values = [casts.coerce(binder, x, SqlType(base)) for x, base in zip(operands, chosen.args, strict=True)]
    duck = chosen.function.duck
    if not isinstance(duck, str):
        return duck(binder, *values)
    return _bare(typed(duck.format(*[x.sql for x in values]), chosen.result, *values))


_MACRO = re.compile(r"(pg_\w+)\(")
_BARE_WEIGHT = 300
"""How long an expression may be, in operands, whose own operands are there several times."""


def _bare(x: Typed) -> Typed:
    """With the form of its macro that is faster, where its operands are short."""
    macro = _MACRO.match(x.sql)
    if macro is None or macro[1] not in BARE or x.weight * copies(macro[1]) > _BARE_WEIGHT:
        return x
    return replace(x, sql=f"{macro[1]}_bare{x.sql[macro.end() - 1 :]}", weight=x.weight * copies(macro[1]))


_SYMBOLS: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.Pow: "^",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}


@handles(*_SYMBOLS)
def _binary(binder: Binder, node: Any, scope: Scope) -> Typed:
    a, b = binder.bind(node.this, scope), binder.bind(node.expression, scope)
    if "start" not in node.meta:
        return operate(binder, _SYMBOLS[type(node)], a, b)
    length = node.meta["end"] - node.meta["start"] + 1  # written as a function: mod(a, b), power(a, b)
    name = "mod" if isinstance(node, exp.Mod) else ("pow" if length == 3 else "power")
    found = library.call(binder, name, [a, b])
    if found is None:
        raise no_function(name, types_of(a, b))
    return found


@handles(exp.Neg)
def _negate(binder: Binder, node: Any, scope: Scope) -> Typed:
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and not inner.is_string:  # the sign is read with the digits
        return number_literal("-" + str(inner.this))
    return operate(binder, "-", binder.bind(node.this, scope))


@handles(exp.BitwiseNot)
def _bit_not(binder: Binder, node: Any, scope: Scope) -> Typed:
    return operate(binder, "~", binder.bind(node.this, scope))
