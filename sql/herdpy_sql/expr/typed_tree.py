"""A typed tree as lines, for EXPLAIN (VERBOSE): what the binder made of an expression, one node a line.

A line is a node's name, what it holds besides its parts, and the type of its value; its parts stand below it,
indented, in the order in which they are evaluated. Above ``nodes``, beside ``compile``.
"""

from __future__ import annotations

from herdpy_sql.expr import nodes as n
from herdpy_sql.values import to_text

_STEP = "  "


def tree_lines(expr: n.Expr, indent: str = "") -> list[str]:
    """The lines of an expression. Nesting is no deeper than the binder lets through (``MAX_DEPTH``)."""
    lines = [f"{indent}{_label(expr)} {expr.type}"]
    for part in n.children(expr):
        lines += tree_lines(part, indent + _STEP)
    return lines


def _label(expr: n.Expr) -> str:
    """The node's name, and what it holds besides its parts."""
    match expr:
        case n.ColumnRef(name=name, table=table):
            return f"column {table}.{name}" if table else f"column {name}"
        case n.Const():
            return f"constant {_value(expr)}"
        case n.SubqueryValues():
            return "values of a subquery"
        case n.Elements(number=number):
            return f"elements of parameter ${number}"
        case n.Param(number=number):
            return f"parameter ${number}"
        case n.Call(function=function):
            return f"call {function.name}"
        case n.Chain(steps=steps):
            return "run of " + ", ".join(function.name for function, _, _ in steps)
        case n.Comparison(op=op):
            return f"comparison {op}"
        case n.Cast(function=function):
            return "cast" if function is not None else "cast without conversion"
        case n.Foreign():
            return expr.label()
        case n.SequenceCall(name=name) | n.ProgramCall(name=name) | n.Random(name=name):
            return f"call {name}"
        case n.Now(what=what):
            return f"time of the {what}"
        case n.IsTruth(truth=truth, negated=negated):
            return f"is {_not(negated)}{'true' if truth else 'false'}"
        case n.Extreme(greatest=greatest):
            return "greatest" if greatest else "least"
        case n.Like(insensitive=insensitive, negated=negated):
            return f"{_not(negated)}{'ilike' if insensitive else 'like'}"
        case _:
            return _plain(expr)


def _plain(expr: n.Expr) -> str:
    """The label of a node that holds nothing but its parts and whether it is negated."""
    negated = _not(getattr(expr, "negated", False))
    match expr:
        case n.IsNull():
            return f"is {negated}null"
        case n.Distinct():
            return f"is {negated}distinct from"
        case n.In():
            return f"{negated}in"
        case n.CaseOperand():
            return "operand"
        case n.Quantified(every=every):
            return "all of array" if every else "any of array"
        case n.NullIf():
            return "nullif"
        case _:
            return type(expr).__name__.lower()


def _not(negated: bool) -> str:
    return "not " if negated else ""


def _value(expr: n.Const) -> str:
    if expr.value is None:
        return "NULL"
    text = expr.value if isinstance(expr.value, str) else to_text(expr.type)(expr.value)
    return "'" + str(text).replace("'", "''") + "'"
