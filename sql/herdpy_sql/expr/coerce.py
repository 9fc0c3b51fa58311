"""Parameters, coercion in a context, and one common type for several expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from herdpy.codec.kinds import sizes_of
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.casts import STRINGS, VECTOR_ELEMENTS, cast_function, castable
from herdpy_sql.expr.compile import folded
from herdpy_sql.expr.nodes import Cast, Const, Expr, Param
from herdpy_sql.expr.resolve import PREFERRED, can_coerce, category
from herdpy_sql.types import BITS, TEXT, UNKNOWN, Base, SqlType, array_of, with_dimensions
from herdpy_sql.values.reg_types import REG_TYPES
from herdpy_sql.values.strings import check_text
from herdpy_sql.values.styled import UNSETTLED, settled

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_PARAMS = 65_535


class ProgramNames(Protocol):
    """The names of a program that a statement in it may use: as its parameters, numbered as they are met.

    Attributes:
        types: of the parameters so far. ``written``: how many of them can be written as $1, $2 ...
        prefers_columns: a column that has the name is meant; else 42702 is raised.
    """

    prefers_columns: bool
    types: list[SqlType]
    written: int

    def find(self, path: tuple[str, ...]) -> tuple[int, SqlType] | None:
        """The number and type of what a name means; None where it means nothing."""

    def record(self, name: str) -> list[tuple[str, int, SqlType]] | None:
        """The columns of a record, with their numbers and types; None where the name means none."""


class Params:
    """The parameters of one statement: which there are, and the type that each has taken so far.

    ``preset`` are types that the caller knows (UNKNOWN for those it leaves to their places); ``most`` is the
    highest number.

    Attributes:
        names: what names mean besides columns, in a statement of a program; None elsewhere.
    """

    def __init__(
        self, preset: Sequence[SqlType] = (), most: int = MAX_PARAMS, names: ProgramNames | None = None
    ) -> None:
        self._types = list(preset)
        self._most = most
        self.names = names
        if names is not None:
            self._most = names.written
            self._types += names.types[len(self._types) :]

    def named(self, path: tuple[str, ...]) -> Param | None:
        """The parameter that a name of a program means; None where it means none."""
        found = None if self.names is None else self.names.find(path)
        return None if found is None else self._numbered(*found)

    def record(self, name: str) -> tuple[tuple[str, Expr], ...] | None:
        """The columns of a program's record, by their names; None where the name means none."""
        found = None if self.names is None else self.names.record(name)
        if found is None:
            return None
        return tuple((field, self._numbered(number, type_)) for field, number, type_ in found)

    def _numbered(self, number: int, sql_type: SqlType) -> Param:
        assert self.names is not None
        self._types += self.names.types[len(self._types) :]
        return Param(sql_type, number)

    @property
    def types(self) -> tuple[SqlType, ...]:
        """A type for every parameter from $1 to the highest; what no place decided is TEXT."""
        return tuple(TEXT if one.base is Base.UNKNOWN else one for one in self._types)

    def use(self, number: int) -> Param:
        """A reference to parameter ``number``. SqlError 42P02 for a number that cannot be."""
        if not 1 <= number <= self._most:
            raise SqlError("42P02", f"there is no parameter ${number}")
        while len(self._types) < number:
            self._types.append(UNKNOWN)
        return Param(self._types[number - 1], number)

    def fix(self, param: Param, sql_type: SqlType) -> Param:
        """``param`` with the type its place gives it; another place may have given it one since."""
        if self._types[param.number - 1].base is Base.UNKNOWN:
            self._types[param.number - 1] = sql_type.plain
        return replace(param, type=self._types[param.number - 1])


def coerce(expr: Expr, target: SqlType, context: str, params: Params) -> Expr:
    """``expr`` as a value of ``target``.

    Args:
        context: "implicit", "assignment" or "explicit"; see :mod:`herdpy_sql.expr.casts`.

    Raises:
        SqlError: 42846 or 42804 when there is no such cast in the context; 22P02 and the like when a
            literal is not a value of the type; 22001 and 22003 when it does not fit.
    """
    if expr.type.base is Base.UNKNOWN:
        expr = _type_unknown(expr, target, context, params)
    source = expr.type
    if source.base is target.base is Base.ARRAY:  # a cast keeps the dimensions that there are
        if isinstance(expr, Param) and source.dimensions < target.dimensions:
            # Clients say only what its elements are.
            source = with_dimensions(source, target.dimensions)
            expr = replace(expr, type=source)
        target = with_dimensions(target, source.dimensions)
    if source == target:
        return expr
    if not castable(source, target, context):
        if context == "explicit":
            raise SqlError("42846", f"cannot cast type {source.name} to {target.name}")
        raise SqlError("42804", f"expression is of type {source.name}, but {target.name} is required")
    if isinstance(expr, Const) and expr.value is None:
        return Const(target, None)
    return folded(
        Cast(
            target, expr, cast_function(source, target, explicit=context == "explicit"), context == "explicit"
        )
    )


def as_array(expr: Expr, params: Params) -> Expr:
    """INT2VECTOR and OIDVECTOR as the arrays that they are wherever one is expected; others as they are."""
    element = VECTOR_ELEMENTS.get(expr.type.base)
    return expr if element is None else coerce(expr, array_of(element), "implicit", params)


def settle(expr: Expr, params: Params) -> Expr:
    """``expr`` itself, or as TEXT when its type is still unknown (a select list's rule)."""
    return coerce(expr, TEXT, "implicit", params) if expr.type.base is Base.UNKNOWN else expr


def unify(exprs: Sequence[Expr], params: Params, what: str) -> tuple[SqlType, tuple[Expr, ...]]:
    """One common type (PostgreSQL's rules for UNION, CASE and VALUES) and the expressions in it.

    SqlError 42804 naming ``what`` when there is none.
    """
    found = common_type([expr.type for expr in exprs], what)
    return found, tuple(coerce(expr, found, "implicit", params) for expr in exprs)


def common_type(types: Sequence[SqlType], what: str) -> SqlType:
    """The common type of ``types``; TEXT when all are unknown. SqlError 42804 when there is none."""
    chosen: SqlType | None = None
    for one in types:
        if one.base is Base.UNKNOWN or (chosen is not None and one.base is chosen.base):
            if chosen is not None and one.base in {Base.ARRAY, Base.ENUM}:
                chosen = _wider(chosen, one, what)
            continue
        if chosen is None:
            chosen = one
        elif category(one.base) != category(chosen.base):
            raise SqlError("42804", f"{what} types {chosen.name} and {one.name} cannot be matched")
        elif (
            chosen.base not in PREFERRED
            and can_coerce(chosen.base, one.base)
            and not can_coerce(one.base, chosen.base)
        ):
            chosen = one
    if chosen is None:
        return TEXT
    alike = all(one == chosen for one in types if one.base is not Base.UNKNOWN)
    result = chosen if alike and not any(one.base is Base.UNKNOWN for one in types) else chosen.plain
    for one in types:
        if not can_coerce(one.base, result.base):
            raise SqlError("42846", f"{what} could not convert type {one.base.value} to {result.base.value}")
    return result


def _wider(chosen: SqlType, one: SqlType, what: str) -> SqlType:
    """The one of two ENUMs, or of two types of arrays, that the other becomes; with the most dimensions."""
    dimensions = max(one.dimensions, chosen.dimensions)
    if not castable(one, chosen, "implicit"):
        if not castable(chosen, one, "implicit"):
            raise SqlError("42804", f"{what} types {chosen.name} and {one.name} cannot be matched")
        chosen = one
    return with_dimensions(chosen, dimensions)


def _type_unknown(expr: Expr, target: SqlType, context: str, params: Params) -> Expr:
    if isinstance(expr, Param):
        if target.base in REG_TYPES:
            return Cast(target, params.fix(expr, TEXT), cast_function(TEXT, target, explicit=True))
        return params.fix(expr, target)
    if not isinstance(expr, Const):
        return replace(expr, type=TEXT)
    text = expr.value
    if text is None:
        return Const(target, None)
    assert isinstance(text, str)
    if target.base in REG_TYPES:  # a name, which the catalog is asked for when the statement runs
        return Cast(target, Const(TEXT, text), cast_function(TEXT, target, explicit=True))
    if context == "explicit" and target.base in STRINGS:
        return Const(TEXT, check_text(text))
    if context == "explicit" and (target.element or target.base) in BITS:
        target = target.plain  # their number is the cast's business
    value = settled(target, text)
    if value is UNSETTLED:  # the session's settings, or the time, say what it is when the statement runs
        return Cast(target, Const(TEXT, text), cast_function(TEXT, target, explicit=True))
    if target.base is Base.ARRAY:
        target = with_dimensions(target, len(sizes_of(value)) or target.dimensions)
    return Const(target, value)
