"""Typed scalar expressions: the tree that the binder makes and that ``compile`` turns into closures.

Every node is immutable, knows its type, and compares and hashes by value, so that a planner may look
for the same expression twice. Nodes refer to columns by their place in the row they will be given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.types import BOOLEAN, SqlType

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum


class NotOwn(Exception):  # noqa: N818 - a signal to the planner, not an error
    """Valid SQL that own plans do not evaluate exactly: the statement goes to the columnar engine."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A resolved implementation, equal only to itself.

    Attributes:
        name: for EXPLAIN and messages; an operator's symbol or a function's name.
        implementation: called with the datums of the arguments, none of them None if ``strict``.
        strict: NULL when any argument is NULL, without a call.
        needs_clock: called with the :class:`~herdpy_sql.storage.Clock` before the arguments.
    """

    name: str
    implementation: Callable[..., Datum]
    strict: bool = True
    needs_clock: bool = False


NOT_OWN = Function("not own", lambda: None)
"""Stands in signatures for what exists in PostgreSQL and is not evaluated here."""


@dataclass(frozen=True, slots=True)
class Expr:
    """Any expression; ``type`` is the type of its value."""

    type: SqlType


@dataclass(frozen=True, slots=True)
class ColumnRef(Expr):
    """A column of the row: ``index`` is its place in the row tuple at run time."""

    index: int
    name: str
    table: str | None = None
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A value known now. Of type UNKNOWN: the text of a quoted literal whose place will type it."""

    value: Datum


@dataclass(frozen=True, slots=True)
class Param(Expr):
    """A parameter, numbered from 1; its datum is ``params[number - 1]``."""

    number: int


@dataclass(frozen=True, slots=True)
class Elements(Param):
    """The elements of a parameter that is an array, whatever their number; ``type`` is that of one."""


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """An operator or function with its resolved implementation."""

    function: Function
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Chain(Expr):
    """A long left-deep run of operators, flattened: ``first``, then step by step.

    A step is (function, right operand), or (function, None) for a cast of what is there so far.
    """

    first: Expr
    steps: tuple[tuple[Function, Expr | None], ...]


@dataclass(frozen=True, slots=True)
class Comparison(Expr):
    """``left op right`` with op one of ``= <> < <= > >=``; both sides are of one comparable kind.

    Numbers of different types compare by value without casts where Python compares them exactly;
    CHAR datums hold no trailing blanks, so that comparing them as text ignores blanks.
    """

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Distinct(Expr):
    """``left IS [NOT] DISTINCT FROM right``; never NULL."""

    left: Expr
    right: Expr
    negated: bool


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """``arg`` converted to ``type``; ``function`` is None when the datum stays as it is."""

    arg: Expr
    function: Function | None
    explicit: bool = True


@dataclass(frozen=True, slots=True)
class Case(Expr):
    """CASE. With ``operand`` (the simple form), conditions see its value as a :class:`CaseOperand`."""

    operand: Expr | None
    whens: tuple[tuple[Expr, Expr], ...]
    default: Expr


@dataclass(frozen=True, slots=True)
class CaseOperand(Expr):
    """The value of the nearest enclosing simple CASE's operand: the last of the extended row."""


@dataclass(frozen=True, slots=True)
class Coalesce(Expr):
    """The first of ``args`` that is not NULL; later ones are not evaluated."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Extreme(Expr):
    """GREATEST or LEAST of the arguments that are not NULL."""

    args: tuple[Expr, ...]
    greatest: bool


@dataclass(frozen=True, slots=True)
class NullIf(Expr):
    """NULL when ``left`` equals ``right`` (``comparison`` over them), else ``left``."""

    left: Expr
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class And(Expr):
    """Conjunction of two or more, flattened; three-valued."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or(Expr):
    """Disjunction of two or more, flattened; three-valued."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not(Expr):
    """Three-valued negation."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class IsNull(Expr):
    """``arg IS [NOT] NULL``."""

    arg: Expr
    negated: bool


@dataclass(frozen=True, slots=True)
class IsTruth(Expr):
    """``arg IS [NOT] TRUE/FALSE`` (IS UNKNOWN is IsNull)."""

    arg: Expr
    truth: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class In(Expr):
    """``arg [NOT] IN (items)``; all of one comparable kind."""

    arg: Expr
    items: tuple[Expr, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Between(Expr):
    """``low <= arg AND arg <= high``, with ``arg`` evaluated once (NOT BETWEEN is Not over it)."""

    arg: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Like(Expr):
    """``arg [NOT] [I]LIKE pattern ESCAPE escape``; ``escape`` is NULL for none, or text."""

    arg: Expr
    pattern: Expr
    escape: Expr
    insensitive: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class Now(Expr):
    """The clock's time, always of type TIMESTAMPTZ.

    ``what`` is "transaction" (now, CURRENT_TIMESTAMP) or "statement" (statement_timestamp).
    """

    what: str


@dataclass(frozen=True, slots=True)
class Random(Expr):
    """Another value each time: bound only where ``Scope.volatile`` allows it (DEFAULT).

    ``name`` is "gen_random_uuid", "random" or "clock_timestamp".
    """

    name: str


@dataclass(frozen=True, slots=True)
class SequenceCall(Expr):
    """nextval, currval, lastval or setval: what it gives depends on what was given before."""

    name: str
    args: tuple[Expr, ...]


TRUE = Const(BOOLEAN, True)
FALSE = Const(BOOLEAN, False)
