"""What expressions are compiled to, and where each kind of node finds its compiler.

``compile`` and ``compile_conditions`` put their compilers into ``COMPILERS``; each compiles the nodes below
its own by ``compile_expr``, and gives a closure of (row, parameters, clock).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from herdpy_sql.expr import nodes as n
from herdpy_sql.storage import Clock

Row = Sequence[Any]
Compiled = Callable[[Row, Sequence[Any], Clock], Any]
COMPILERS: dict[type[n.Expr], Callable[[Any], Compiled]] = {}


def compile_expr(expr: n.Expr) -> Compiled:
    """The function that evaluates ``expr``; it raises SqlError when the values do not allow it."""
    return COMPILERS[type(expr)](expr)
