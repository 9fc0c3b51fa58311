"""Scalar expressions: bound from sqlglot's nodes to typed trees, coerced, compiled to closures.

    bind(node, scope, params, expected=None) -> Expr            names, operators, functions resolved
    coerce(expr, target, context, params) -> Expr               "implicit", "assignment" or "explicit"
    settle(expr, params) -> Expr                                what is still of unknown type becomes TEXT
    unify(exprs, params, what) -> (type, exprs)                 one common type (VALUES, UNION, CASE)
    compile_expr(expr) -> (row, params, clock) -> Datum
    sql_type(data_type_node) -> SqlType                         of a cast or a column definition
    walk, columns_used, is_constant, is_volatile, split_conjuncts, remap_columns

``Scope`` says what names mean: ``resolve(table, name) -> ColumnRef``. ``Params(preset)`` collects the types
of ``$1``... in ``.types``. Wrong SQL raises SqlError. A tree may have what own plans
do not evaluate (``nodes.foreign_reason``). Nothing here does I/O.
"""

from herdpy_sql.expr.binding import bind
from herdpy_sql.expr.coerce import Params, coerce, common_type, settle, unify
from herdpy_sql.expr.compile import Compiled, compile_expr
from herdpy_sql.expr.conditions import negated
from herdpy_sql.expr.nodes import (
    children,
    columns_used,
    is_constant,
    is_volatile,
    rebuild,
    remap_columns,
    split_conjuncts,
    takes_values,
    walk,
)
from herdpy_sql.expr.scope import Scope
from herdpy_sql.expr.seek import ALWAYS, NEVER, seek
from herdpy_sql.expr.syntax import identifier
from herdpy_sql.expr.typenames import sql_type

__all__ = [
    "ALWAYS",
    "NEVER",
    "Compiled",
    "Params",
    "Scope",
    "bind",
    "children",
    "coerce",
    "columns_used",
    "common_type",
    "compile_expr",
    "identifier",
    "is_constant",
    "is_volatile",
    "negated",
    "rebuild",
    "remap_columns",
    "seek",
    "settle",
    "split_conjuncts",
    "sql_type",
    "takes_values",
    "unify",
    "walk",
]
