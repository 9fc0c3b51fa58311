"""Search arguments: the conditions of a query that a key or an index could serve.

Bound conjuncts come in; what goes out are those of the shape ``column op values``, the values known before
the table is read, numbered as the conjuncts are so that served ones need no second check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.expr import columns_used
from herdpy_sql.expr.nodes import TRUE, And, Between, ColumnRef, Comparison, In, Or, comparable_as_is

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.scope import Item


_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Sarg:
    """A condition that can serve an access path: ``column op value``, op "in" having several values.

    Attributes:
        number: of the condition it comes from.
        half: BETWEEN gives two: each serves half of it.
        rest: of a comparison of rows, the columns after the first, with what each is compared with.
    """

    position: int
    op: str
    values: tuple[Expr, ...]
    number: int
    half: int = 0
    rest: tuple[tuple[int, Expr], ...] = ()


def sargs_of(item: Item, conditions: Sequence[Expr], known: Callable[[int], bool]) -> list[Sarg]:
    """The conditions that can serve an access to ``item``; ``known`` says which columns have values."""
    found: list[Sarg] = []
    for number, condition in enumerate(conditions):
        match condition:
            case Comparison(op=op, left=left, right=right) if op in _MIRRORED:
                for column, value, way in ((left, right, op), (right, left, _MIRRORED[op])):
                    position = _position(item, column)
                    if position is not None and _usable(column, (value,), known):
                        found.append(Sarg(position, way, (value,), number))
            case In(arg=arg, items=items, negated=False):
                position = _position(item, arg)
                if position is not None and _usable(arg, items, known):
                    found.append(Sarg(position, "in", items, number))
            case Between(arg=arg, low=low, high=high):
                position = _position(item, arg)
                if position is not None:
                    found += [
                        Sarg(position, op, (value,), number, half)
                        for op, value, half in ((">=", low, 1), ("<=", high, 2))
                        if _usable(arg, (value,), known)
                    ]
            case Or(args=args):
                sarg = _alternatives(item, args, known, number) or _row(item, args, known, number)
                found += [sarg] if sarg is not None else []
            case ColumnRef() if _position(item, condition) is not None:
                found.append(Sarg(condition.index - item.base, "=", (TRUE,), number))
    return found


def _alternatives(item: Item, args: Sequence[Expr], known: Callable[[int], bool], number: int) -> Sarg | None:
    """``a = 1 OR a = 2`` as ``a IN (1, 2)``."""
    values: list[Expr] = []
    position: int | None = None
    for arg in args:
        if not isinstance(arg, Comparison) or arg.op != "=":
            return None
        for column, value in ((arg.left, arg.right), (arg.right, arg.left)):
            place = _position(item, column)
            if place is not None and position in {None, place} and _usable(column, (value,), known):
                position = place
                values.append(value)
                break
        else:
            return None
    return None if position is None else Sarg(position, "in", tuple(values), number)


def _row(item: Item, args: Sequence[Expr], known: Callable[[int], bool], number: int) -> Sarg | None:
    """``a < 1 OR (a = 1 AND b < 2)``, which is ``(a, b) < (1, 2)``: where a page of keyset paging begins."""
    parts: list[tuple[int, Expr]] = []
    op = ""
    while True:
        match args:
            case (
                Comparison(op=this, left=a, right=x),
                And(args=(Comparison(op="=", left=b, right=y), rest)),
            ):
                place = _position(item, a)
                if place is None or (a, x) != (b, y) or this not in {op or "<", op or ">"}:
                    return None
                if not _usable(a, (x,), known):
                    return None
                parts.append((place, x))
                op = this
            case _:
                return None
        if isinstance(rest, Or):
            args = rest.args
            continue
        if not isinstance(rest, Comparison) or rest.op not in {op, f"{op}="}:
            return None
        place = _position(item, rest.left)
        if place is None or not _usable(rest.left, (rest.right,), known):
            return None
        return Sarg(parts[0][0], rest.op, (parts[0][1],), number, rest=(*parts[1:], (place, rest.right)))


def _position(item: Item, expr: Expr) -> int | None:
    if isinstance(expr, ColumnRef) and item.base <= expr.index < item.end:
        return expr.index - item.base
    return None


def _usable(column: Expr, values: Iterable[Expr], known: Callable[[int], bool]) -> bool:
    values = tuple(values)
    if not all(comparable_as_is(column.type, value.type) for value in values):
        return False
    return all(known(column.index) for value in values for column in columns_used(value))
