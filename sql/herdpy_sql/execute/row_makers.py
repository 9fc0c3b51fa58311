"""New rows of a table, whole and checked, of parameters or a query's rows. Below ``insert``, over ``rules``.

For VALUES a *maker* is written for each row of the list: a straight-line function from the parameters to
the whole physical row, with the checks that can fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from herdpy_sql.execute.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.execute.base import Compiled, Row
    from herdpy_sql.storage import Clock, View

Maker = Callable[["View", "Row", "Clock"], "Row"]


@dataclass(frozen=True)
class Value:
    """Where one physical column of a new row comes from: exactly one of the first four is meant.

    Attributes:
        param: index of a parameter taken as it is.
        constant: a datum known now (when ``is_constant``).
        compute: a compiled expression.
        row_id: a fresh hidden key.
    """

    param: int | None = None
    constant: Datum = None
    is_constant: bool = False
    compute: Compiled | None = None
    row_id: bool = False


def make_maker(values: Sequence[Value], rules: Rules, *, often: bool) -> Maker:
    """The function that makes one row: (view, params, clock) -> row, checked.

    ``often``: it is worth compiling a function of its own, because parameters will come many times.
    """
    return _written_maker(values, rules) if often and not rules.generated else _general_maker(values, rules)


def _general_maker(values: Sequence[Value], rules: Rules) -> Maker:
    if rules.generated:
        return _generating_maker(values, rules)
    if all(value.is_constant for value in values):
        constants = tuple(value.constant for value in values)

        def same(view: View, params: Row, clock: Clock) -> Row:
            rules.verify(constants, clock)
            return constants

        return same
    table = rules.table

    def make(view: View, params: Row, clock: Clock) -> Row:
        row = tuple(
            [
                value.constant
                if value.is_constant
                else params[value.param]
                if value.param is not None
                else view.next_row_id(table)
                if value.compute is None
                else value.compute((), params, clock)
                for value in values
            ]
        )
        rules.verify(row, clock)
        return row

    return make


def _generating_maker(values: Sequence[Value], rules: Rules) -> Maker:
    """The same for a table with generated columns."""
    plain = _general_maker(values, Rules(rules.table, (), ()))

    def make(view: View, params: Row, clock: Clock) -> Row:
        row = list(plain(view, params, clock))
        rules.verify(row, clock)
        return tuple(row)

    return make


def _written_maker(values: Sequence[Value], rules: Rules) -> Maker:
    """The same, straight-line; the source holds column positions and names of constants only."""
    names: dict[str, object] = {"rules": rules, "table": rules.table}
    parts = []
    for i, value in enumerate(values):
        if value.param is not None:
            parts.append(f"params[{value.param}]")
        elif value.row_id:
            parts.append("view.next_row_id(table)")
        elif value.compute is not None:
            names[f"f{i}"] = value.compute
            parts.append(f"f{i}((), params, clock)")
        else:
            names[f"c{i}"] = value.constant
            parts.append(f"c{i}")
    body = [f"row = ({''.join(part + ', ' for part in parts)})"]
    for position in rules.not_null:
        value = values[position]
        if value.row_id or (value.is_constant and value.constant is not None):
            continue
        body.append(f"if row[{position}] is None: rules.refuse_null({position}, row)")
    for position, dimensions in rules.shapes:
        body.append(f"rules.check_shape({position}, {dimensions}, row[{position}])")
    if rules.checks or rules.options:
        body.append("rules.verify(row, clock)")
    body.append("return row")
    source = "\n".join(["def make(view, params, clock):", *(f"    {line}" for line in body)])
    exec(compile(source, "<row maker>", "exec"), names)
    maker: Maker = names["make"]  # type: ignore[assignment]
    return maker


@dataclass(frozen=True)
class FromQuery:
    """How a query's row becomes a table's: for each physical column a computation over it."""

    compute: tuple[Compiled, ...]
    row_id: int | None
    rules: Rules
    names: tuple[str, ...] = field(default=())

    def rows(self, view: View, given: Sequence[Row], clock: Clock) -> list[Row]:
        """:meth:`row` for each row of the query."""
        return [self.row(view, one, clock) for one in given]

    def row(self, view: View, given: Row, clock: Clock) -> Row:
        """The whole new row, checked."""
        made = [one(given, (), clock) for one in self.compute]
        if self.row_id is not None:
            made[self.row_id] = view.next_row_id(self.rules.table)
        self.rules.verify(made, clock)
        return tuple(made)


@dataclass(frozen=True)
class FromOneRow:
    """Several rows made of each of the query's: VALUES whose expressions are put to it side by side."""

    converts: tuple[FromQuery, ...]

    def rows(self, view: View, given: Sequence[Row], clock: Clock) -> list[Row]:
        """The whole new rows, checked."""
        return [convert.row(view, one, clock) for one in given for convert in self.converts]
