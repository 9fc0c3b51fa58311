"""The binder of own plans: it walks sqlglot's nodes and makes typed trees, by PostgreSQL's rules.

A node is bound by the handler of its class. Leaves and operators are bound here; ``conditions`` and
``calls``, above this, bind the rest, and ``bind`` gives all of them to the binder. Nesting is limited
(SqlError 54001), and long runs of left-deep operators are flattened, so that no input makes Python's stack
overflow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.collations import BY_CODE_POINT, collation_name
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import Params, coerce, settle
from herdpy_sql.expr.compile import folded
from herdpy_sql.expr.operate import binary, concatenate, library_call, unary
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.scope import Scope
from herdpy_sql.expr.syntax import bare, identifier, interval_words
from herdpy_sql.expr.typenames import sql_type
from herdpy_sql.misspellings import missing_relation
from herdpy_sql.node_names import refusal
from herdpy_sql.types import BIT, BOOLEAN, UNKNOWN, Base, SqlType, with_dimensions
from herdpy_sql.values.bits import bits_of_hexadecimal, parse_bits
from herdpy_sql.values.integers import INTEGER_RANGES
from herdpy_sql.values.numeric import parse_numeric
from herdpy_sql.values.strings import check_text, unicode_string

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


MAX_DEPTH = 200
_CHAIN = 16
_TEXTS = frozenset({Base.TEXT, Base.VARCHAR, Base.CHAR, Base.NAME})
_INTEGER = re.compile(r"[0-9]+")

_ARITHMETIC: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.Pow: "^",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}


Handler = Callable[["ExprBinder", Any], n.Expr]


class ExprBinder:
    """Binds the parts of one expression.

    Args:
        handlers: what binds a node, by the node's class; SqlError 0A000 for nodes of other classes.
    """

    def __init__(
        self,
        scope: Scope,
        params: Params,
        handlers: Mapping[type, Handler],
    ) -> None:
        self.scope = scope
        self.params = params
        self._handlers = handlers
        self._depth = 0

    def bind(self, node: exp.Expression) -> n.Expr:
        """Bind one node and what is under it."""
        while isinstance(node, exp.Paren):
            node = node.this
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SqlError("54001", "statement too complex", detail="The expression is nested too deeply.")
        handler = self._handlers.get(type(node))
        if handler is None:
            raise refusal(node)
        result = handler(self, node)
        self._depth -= 1
        return result

    def query(self, node: exp.Expression) -> n.InnerQuery:
        """A query inside the expression."""
        return self.scope.query(node)

    def condition(self, node: exp.Expression, what: str) -> n.Expr:
        """Bind as BOOLEAN."""
        return as_condition(self.bind(node), what, self.params)

    def typed(self, node: exp.Expression) -> n.Expr:
        """Bind, and make TEXT of what is of unknown type."""
        return settle(self.bind(node), self.params)

    # Leaves.

    def column(self, node: exp.Column) -> n.Expr:
        name = node.this
        if not isinstance(name, exp.Identifier):
            raise SqlError("42601", "* is not allowed here")
        table = None if node.args.get("table") is None else identifier(node.args["table"])
        if self.params.names is not None and (found := self._of_program(node, table)) is not None:
            return found
        if table is not None and node.args.get("db") is not None and identifier(node.args["db"]) != "public":
            raise missing_relation(table, [])
        return self.scope.resolve(table, identifier(name))

    def _of_program(self, node: exp.Column, table: str | None) -> n.Expr | None:
        """A variable of the program that the statement is part of. SqlError 42702 where a column is, too."""
        name, before = identifier(node.this), node.args.get("db")
        path = (name,) if table is None else (table, name)
        if before is not None:
            path = (identifier(before), *path)
        found = self.params.named(path)
        if found is not None and before is None and self.scope.has_reference(table, name):
            assert self.params.names is not None
            if self.params.names.prefers_columns:
                return None
            raise SqlError(
                "42702",
                f'column reference "{name}" is ambiguous',
                detail="It could refer to either a PL/pgSQL variable or a table column.",
            )
        return found

    def literal(self, node: exp.Literal) -> n.Expr:
        if node.is_string:
            return n.Const(UNKNOWN, check_text(node.this))
        return number(node.this)

    def bits(self, node: exp.BitString) -> n.Expr:
        return n.Const(BIT, parse_bits(str(node.this)))

    def hexadecimal_bits(self, node: exp.HexString) -> n.Expr:
        return n.Const(BIT, bits_of_hexadecimal(str(node.this)))

    def text(self, node: exp.Expression) -> n.Expr:
        return n.Const(UNKNOWN, check_text(str(node.this)))

    def unicode_text(self, node: exp.UnicodeString) -> n.Expr:
        return n.Const(UNKNOWN, check_text(unicode_string(str(node.this))))

    def boolean(self, node: exp.Boolean) -> n.Expr:
        return n.TRUE if node.this else n.FALSE

    def null(self, node: exp.Null) -> n.Expr:
        return n.Const(UNKNOWN, None)

    def parameter(self, node: exp.Parameter) -> n.Expr:
        if isinstance(node.this, exp.Literal) and _INTEGER.fullmatch(node.this.this):
            text = node.this.this
            return self.params.use(int(text) if len(text) < 9 else 10**9)
        raise SqlError("42601", f'syntax error at or near "{node.sql("postgres")}"')

    def placeholder(self, node: exp.Placeholder) -> n.Expr:
        raise SqlError("42601", "parameters are written $1, $2 and so on")

    def interval(self, node: exp.Interval) -> n.Expr:
        if not isinstance(node.this, exp.Literal):
            raise SqlError("0A000", "INTERVAL of anything but a literal is not supported")
        return coerce(n.Const(t.UNKNOWN, interval_words(node)), t.INTERVAL, "implicit", self.params)

    def cast(self, node: exp.Cast) -> n.Expr:
        if node.args.get("format") is not None:
            raise SqlError("0A000", "CAST with FORMAT is not supported")
        target = sql_type(node.args["to"], any_scale=True)
        written = bare(node.this)
        if target.base is Base.ARRAY and isinstance(written, exp.Array) and _is_flat(written):
            return self._cast_elements(written, target)
        return coerce(self.bind(written), target, "explicit", self.params)

    def _cast_elements(self, node: exp.Array, target: SqlType) -> n.Expr:
        """``ARRAY[...]::type[]``: each element is cast by itself, and there may be none."""
        element = target.element_type
        items = [coerce(self.bind(item), element, "explicit", self.params) for item in node.expressions]
        if not items:
            return n.Const(target, ())
        return folded(n.Call(with_dimensions(target, 1), LIST, tuple(items)))

    # Operators.

    def arithmetic(self, node: exp.Expression) -> n.Expr:
        """A left-deep run of operators, without recursion along it."""
        run: list[exp.Expression] = []
        while type(node) in _ARITHMETIC and "start" not in node.meta:
            run.append(node)
            node = bare(node.this)
        if not run:
            return self._called(node)
        value = self.bind(node)
        for one in reversed(run[-_CHAIN:]):
            value = self._operate(_ARITHMETIC[type(one)], value, self.bind(one.expression))
        rest = run[:-_CHAIN][::-1]
        return self._chain(value, rest) if rest else value

    def _called(self, node: exp.Expression) -> n.Expr:
        """What is an operator, too, written as a function: mod(a, b), power(a, b)."""
        length = node.meta["end"] - node.meta["start"] + 1
        name = "mod" if isinstance(node, exp.Mod) else ("pow" if length == 3 else "power")
        args = [self.bind(node.this), self.bind(node.expression)]
        found = library_call(name, args, self.params)
        if found is None:
            raise no_function(name, [arg.type for arg in args])
        return found

    def _chain(self, first: n.Expr, run: Sequence[exp.Expression]) -> n.Expr:
        if first.type.base is Base.UNKNOWN:
            first = settle(first, self.params)
        steps: list[tuple[n.Function, n.Expr | None, SqlType]] = []
        value: n.Expr = _Before(first.type)
        for one in run:
            result = self._operate(_ARITHMETIC[type(one)], value, self.bind(one.expression))
            assert isinstance(result, n.Call)
            left, right = result.args
            if isinstance(left, n.Cast):
                steps.append((left.function or _AS_IT_IS, None, left.type))
            steps.append((result.function, right, result.type))
            value = _Before(result.type)
        return n.Chain(value.type, first, tuple(steps))

    def _operate(self, symbol: str, left: n.Expr, right: n.Expr) -> n.Expr:
        if symbol == "||":
            return concatenate(left, right, self.params)
        return binary(symbol, left, right, self.params)

    def minus(self, node: exp.Neg) -> n.Expr:
        inner = innermost = bare(node.this)
        sign = "-"
        while isinstance(innermost, exp.Neg):
            innermost, sign = bare(innermost.this), "" if sign else "-"
        if isinstance(innermost, exp.Literal) and not innermost.is_string:
            return number(sign + innermost.this)
        return unary("-", self.bind(inner), self.params)

    def invert(self, node: exp.BitwiseNot) -> n.Expr:
        return unary("~", self.bind(node.this), self.params)

    def collate(self, node: exp.Collate) -> n.Expr:
        """COLLATE: by code point is how all text is compared. SqlError 42804 for what is no text."""
        name = collation_name(node.expression)
        arg = settle(self.bind(node.this), self.params)
        if arg.type.base not in _TEXTS:
            raise SqlError("42804", f"collations are not supported by type {arg.type.name}")
        return arg if name.upper() in BY_CODE_POINT else n.Collated(arg.type, arg, name)


class _Before(n.Foreign, frozen=True):
    """What a run of operators gave so far: it is not known, so no operator over it is folded."""

    def label(self) -> str:
        return "a run of operators"


_AS_IT_IS = n.Function("as it is", lambda value: value)


def _is_flat(array: exp.Array) -> bool:
    return not any(isinstance(one, exp.Query | exp.Values | exp.Array) for one in array.expressions)


LIST = n.Function("array", lambda *values: values, strict=False)


def as_condition(bound: n.Expr, what: str, params: Params) -> n.Expr:
    """A BOOLEAN; SqlError 42804 naming the place."""
    if bound.type.base is Base.BOOLEAN:
        return bound
    if bound.type.base is not Base.UNKNOWN:
        raise SqlError("42804", f"argument of {what} must be type boolean, not type {bound.type.name}")
    return coerce(bound, BOOLEAN, "implicit", params)


def number(text: str) -> n.Const:
    """A number as PostgreSQL types it: INTEGER, BIGINT or NUMERIC."""
    digits = text.lstrip("-")
    if _INTEGER.fullmatch(digits):
        if len(digits.lstrip("0")) < 20:
            value = int(text)
            for sql_type_ in (t.INTEGER, t.BIGINT):
                low, high = INTEGER_RANGES[sql_type_.base]
                if low <= value <= high:
                    return n.Const(sql_type_, value)
        return n.Const(t.NUMERIC, Decimal(text))
    return n.Const(t.NUMERIC, parse_numeric(text))


LEAVES_AND_OPERATORS: dict[type, Handler] = {
    exp.Column: ExprBinder.column,
    exp.Literal: ExprBinder.literal,
    exp.RawString: ExprBinder.text,
    exp.National: ExprBinder.text,
    exp.ByteString: ExprBinder.text,
    exp.UnicodeString: ExprBinder.unicode_text,
    exp.Boolean: ExprBinder.boolean,
    exp.Null: ExprBinder.null,
    exp.Parameter: ExprBinder.parameter,
    exp.Placeholder: ExprBinder.placeholder,
    exp.Interval: ExprBinder.interval,
    exp.Cast: ExprBinder.cast,
    exp.Neg: ExprBinder.minus,
    exp.BitwiseNot: ExprBinder.invert,
    exp.BitString: ExprBinder.bits,
    exp.HexString: ExprBinder.hexadecimal_bits,
    exp.Collate: ExprBinder.collate,
    **dict.fromkeys(_ARITHMETIC, ExprBinder.arithmetic),
}
