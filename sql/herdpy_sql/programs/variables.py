"""What a running program has by name: variables and records in nested scopes. Above ``routines``.

A name is looked up from the innermost block outward; "block.name" and "function.name" say which. A variable's
type is that of its declaration; a record's columns are those of the row that it was given last.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import Params, coerce, compile_expr
from herdpy_sql.expr.casts import castable
from herdpy_sql.expr.nodes import Param
from herdpy_sql.programs.type_texts import RowType
from herdpy_sql.types import TEXT, SqlType
from herdpy_sql.values import from_text

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.clock import Clock

Convert = Callable[["Datum", "Clock"], "Datum"]


def _as_it_is(value: Datum, clock: Clock) -> Datum:
    return value


@functools.lru_cache(maxsize=2048)
def converter(source: SqlType, target: SqlType) -> Convert:
    """What makes a value of one type one of another, as PL/pgSQL assigns: by a cast, or by its text.

    SqlError 22P02 and the like when it runs.
    """
    if source == target:
        return _as_it_is
    if castable(source, target, "assignment"):
        return _cast(source, target, "assignment")
    if source.base is not TEXT.base and castable(source, TEXT, "explicit"):
        to_text = _cast(source, TEXT, "explicit")
    elif source.base is TEXT.base:
        to_text = _as_it_is
    else:
        raise SqlError("42804", f"cannot cast type {source.name} to {target.name}")
    read = from_text(target.plain)
    fit = _as_it_is if target == target.plain else _cast(target.plain, target, "assignment")

    def by_text(value: Datum, clock: Clock) -> Datum:
        if value is None:
            return None
        text: Any = to_text(value, clock)
        return fit(read(text), clock)

    return by_text


def _cast(source: SqlType, target: SqlType, context: str) -> Convert:
    run = compile_expr(coerce(Param(source, 1), target, context, Params((source,))))
    return lambda value, clock: run((), (value,), clock)


class Variable:
    """One value of a declared type."""

    __slots__ = ("constant", "name", "not_null", "type", "value")

    def __init__(
        self,
        name: str,
        type_: SqlType,
        value: Datum = None,
        *,
        constant: bool = False,
        not_null: bool = False,
    ) -> None:
        self.name = name
        self.type = type_
        self.value = value
        self.constant = constant
        self.not_null = not_null

    def assign(self, value: Datum, source: SqlType, clock: Clock) -> None:
        """Take a value of another type. SqlError 22004, and what the conversion raises."""
        if value is not None and source is not self.type:
            value = converter(source, self.type)(value, clock)
        if value is None and self.not_null:
            raise SqlError(
                "22004", f'null value cannot be assigned to variable "{self.name}" declared NOT NULL'
            )
        self.value = value


class RecordVariable:
    """A row: its columns, and their values.

    Attributes:
        row: None of a record that was not given a row yet.
        fixed: its columns stay those of its declaration (%ROWTYPE).
        values: None: the row is NULL.
    """

    __slots__ = ("fixed", "name", "row", "values")

    def __init__(self, name: str, row: RowType | None = None, *, fixed: bool = False) -> None:
        self.name = name
        self.row = row
        self.fixed = fixed
        self.values: list[Any] | None = None

    def columns(self) -> RowType:
        """Its columns. SqlError 55000 where it has none yet."""
        if self.row is None:
            raise SqlError(
                "55000",
                f'record "{self.name}" is not assigned yet',
                detail="The tuple structure of a not-yet-assigned record is indeterminate.",
            )
        return self.row

    def place(self, field: str) -> int:
        """The number of a column. SqlError 42703, 55000."""
        for at, (name, _type) in enumerate(self.columns()):
            if name == field:
                return at
        raise SqlError("42703", f'record "{self.name}" has no field "{field}"')

    def get(self, at: int) -> Any:
        """The value of a column."""
        return None if self.values is None else self.values[at]

    def set(self, at: int, value: Any, source: SqlType, clock: Clock) -> None:
        """Give a column a value of another type."""
        columns = self.columns()
        if self.values is None:
            self.values = [None] * len(columns)
        target = columns[at][1]
        self.values[at] = value if value is None else converter(source, target)(value, clock)

    def take(self, row: RowType, values: Sequence[Any] | None, clock: Clock) -> None:
        """Take a row; one that is ``fixed`` takes the columns by their places."""
        if not self.fixed or self.row is None:
            self.row = row
            self.values = None if values is None else list(values)
            return
        given = [None] * len(row) if values is None else list(values)
        taken: list[Any] = []
        for at, (_name, target) in enumerate(self.row):
            value = given[at] if at < len(given) else None
            taken.append(None if value is None else converter(row[at][1], target)(value, clock))
        self.values = taken


Held = Variable | RecordVariable


class Names:
    """The names of one block, and those around it.

    Attributes:
        label: what qualifies them; "".
    """

    __slots__ = ("held", "label", "parent")

    def __init__(self, parent: Names | None = None, label: str = "") -> None:
        self.parent = parent
        self.label = label
        self.held: dict[str, Held] = {}

    def find(self, path: tuple[str, ...]) -> tuple[Held, str | None] | None:
        """What a name means: a variable or record, and the field of the record; None: nothing here."""
        first, rest = path[0], path[1:]
        names: Names | None = self
        while names is not None:
            found = names.held.get(first)
            if found is not None and (not rest or (isinstance(found, RecordVariable) and len(rest) == 1)):
                return found, rest[0] if rest else None
            if names.label == first and rest and rest[0] in names.held:
                inner = names.held[rest[0]]
                if len(rest) == 1:
                    return inner, None
                if isinstance(inner, RecordVariable) and len(rest) == 2:
                    return inner, rest[1]
            names = names.parent
        return None

    def get(self, path: tuple[str, ...]) -> Any:
        """The value of what a name means, which is there."""
        found = self.find(path)
        assert found is not None
        held, field = found
        if isinstance(held, Variable):
            return held.value
        return held.get(held.place(field or ""))


@dataclass(frozen=True, slots=True)
class UsedRecord:
    """A record that a fragment was planned with, and the columns that it had then."""

    path: tuple[str, ...]
    row: RowType | None


class StatementNames:
    """The names that a statement may use, numbered as its parameters as they are met.

    See ``expr.coerce.Params.names``.

    Attributes:
        paths: the name of each parameter, from $1.
        records: those whose columns the statement was planned with.
    """

    def __init__(
        self,
        names: Names | None,
        numbered: Sequence[tuple[tuple[str, ...], SqlType]] = (),
        *,
        prefers_columns: bool = False,
    ) -> None:
        """``numbered``: what $1, $2 ... mean. ``prefers_columns``: a column that has the name is meant."""
        self._names = names
        self.prefers_columns = prefers_columns
        self.written = len(numbered)
        self.paths = [path for path, _ in numbered]
        self.types = [type_ for _, type_ in numbered]
        self._numbers: dict[tuple[str, ...], int] = {}
        self._rows: dict[str, list[tuple[str, int, SqlType]]] = {}
        self.records: list[UsedRecord] = []

    def let_go(self) -> None:
        """Forget the values of the program; the names that were used keep their numbers."""
        self._names = None

    def find(self, path: tuple[str, ...]) -> tuple[int, SqlType] | None:
        """The number and type of what a name means; None where it means nothing here."""
        number = self._numbers.get(path)
        if number is not None:
            return number, self.types[number - 1]
        found = None if self._names is None else self._names.find(path)
        if found is None:
            return None
        held, field = found
        if isinstance(held, Variable):
            return self._add(path, held.type)
        if field is None:
            return None
        place = held.place(field)
        self._note(path[:-1], held)
        return self._add(path, held.columns()[place][1])

    def record(self, name: str) -> list[tuple[str, int, SqlType]] | None:
        """The columns of a record: names, numbers, types; None where the name means none."""
        if name in self._rows:
            return self._rows[name]
        found = None if self._names is None else self._names.find((name,))
        if found is None or not isinstance(found[0], RecordVariable):
            return None
        held = found[0]
        self._note((name,), held)
        row = [(field, *self._add((name, field), type_)) for field, type_ in held.columns()]
        self._rows[name] = row
        return row

    def _note(self, path: tuple[str, ...], held: RecordVariable) -> None:
        used = UsedRecord(path, held.row)
        if used not in self.records:
            self.records.append(used)

    def _add(self, path: tuple[str, ...], type_: SqlType) -> tuple[int, SqlType]:
        number = self._numbers.get(path)
        if number is None:
            self.paths.append(path)
            self.types.append(type_)
            number = self._numbers[path] = len(self.paths)
        return number, type_
