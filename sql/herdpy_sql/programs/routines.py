"""Functions and procedures as they are called: what a definition means under a catalog, and which one a call
means.

Above ``type_texts`` and ``parser``, below ``variables``. A :class:`Program` is made once for a catalog; its
tree once for a definition, so that what is planned of its SQL is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.casts import castable
from herdpy_sql.expr.resolve import choose
from herdpy_sql.objects import CatalogObject, FunctionDefinition
from herdpy_sql.parse import split
from herdpy_sql.programs.parser import parse_program
from herdpy_sql.programs.syntax import Fragment, ProgramBlock
from herdpy_sql.programs.type_texts import RowType, row_of_text, type_of_text
from herdpy_sql.types import Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog


@dataclass(frozen=True, slots=True)
class ProgramArgument:
    """One argument, or a column of RETURNS TABLE; modes as in ``FunctionDefinition``."""

    mode: str
    name: str
    type: SqlType
    default: str = ""


@dataclass(frozen=True, eq=False)
class Program:
    """A function, a procedure, or a DO block.

    Attributes:
        id: of its object; 0 of a DO block.
        inputs, outputs: the arguments that a call gives, and those that come back.
        result: the type of its one value; None where it has none, or a row.
        row: the columns of a row that it gives; None where it gives one value or none.
        is_record: what columns it gives is known when it has run.
    """

    id: int
    schema: str
    definition: FunctionDefinition
    arguments: tuple[ProgramArgument, ...]
    result: SqlType | None
    row: RowType | None
    is_record: bool = False

    @property
    def name(self) -> str:
        """As calls have it."""
        return self.definition.name

    @functools.cached_property
    def inputs(self) -> tuple[ProgramArgument, ...]:
        """What a call gives."""
        return tuple(one for one in self.arguments if one.mode in {"i", "b"})

    @functools.cached_property
    def outputs(self) -> tuple[ProgramArgument, ...]:
        """What comes back."""
        return tuple(one for one in self.arguments if one.mode in {"o", "b", "t"})

    @property
    def gives_rows(self) -> bool:
        """Whether it gives any number of rows."""
        return self.definition.gives_rows

    @property
    def is_volatile(self) -> bool:
        """Whether it may change the database."""
        return self.definition.volatility == "v"

    @property
    def signature(self) -> str:
        """``name(types)``, as messages have it."""
        return signature_text(self.name, [one.type for one in self.inputs])

    @functools.cached_property
    def block(self) -> ProgramBlock:
        """The tree of a program in PL/pgSQL. SqlError 42601."""
        return _block(self.id, self.definition)

    @functools.cached_property
    def statements(self) -> tuple[Fragment, ...]:
        """The statements of one in SQL. SqlError 42601."""
        return _statements(self.id, self.definition)


@functools.lru_cache(maxsize=512)
def _block(_number: int, definition: FunctionDefinition) -> ProgramBlock:
    return parse_program(definition.source)


@functools.lru_cache(maxsize=512)
def _statements(_number: int, definition: FunctionDefinition) -> tuple[Fragment, ...]:
    source = definition.source
    return tuple(Fragment(one.text, source.count("\n", 0, one.offset) + 1) for one in split(source))


def signature_text(name: str, types: Sequence[SqlType]) -> str:
    """``name(integer, text)``."""
    return f"{name}({', '.join(one.name for one in types)})"


def program_of(one: CatalogObject, catalog: Catalog) -> Program:
    """The function or procedure of an object. SqlError 42704 where a type of it is gone."""
    key = ("program", one.id)
    found = catalog.derived.get(key)
    if not isinstance(found, Program):
        assert isinstance(one.definition, FunctionDefinition)
        found = made_program(one.id, one.schema, one.definition, catalog)
        catalog.derived[key] = found
    return found


def made_program(number: int, schema: str, definition: FunctionDefinition, catalog: Catalog) -> Program:
    """What a definition means under a catalog."""
    arguments = tuple(
        ProgramArgument(mode, name, type_of_text(type_, catalog), default)
        for mode, name, type_, default in definition.arguments
    )
    outputs = [one for one in arguments if one.mode in {"o", "b", "t"}]
    returns, result, row, is_record = definition.returns, None, None, False
    if returns.startswith("%"):
        row = row_of_text(returns, catalog)
    elif len(outputs) > 1 or (outputs and definition.procedure):
        row = tuple((one.name or f"column{i}", one.type) for i, one in enumerate(outputs, 1))
    elif outputs:
        result = outputs[0].type
    elif returns == "record":
        is_record = True
    elif returns not in {"void", "trigger"}:
        result = type_of_text(returns, catalog)
    return Program(number, schema, definition, arguments, result, row, is_record)


def has_programs(catalog: Catalog) -> bool:
    """Whether there is any function or procedure; kept with the catalog."""
    return bool(named_programs(catalog))


def named_programs(catalog: Catalog) -> dict[str, list[CatalogObject]]:
    """The functions and procedures by their names; kept with the catalog."""
    kept = catalog.derived.get("programs by name")
    if isinstance(kept, dict):
        return kept
    found: dict[str, list[CatalogObject]] = {}
    for one in catalog.objects.values():
        if isinstance(one.definition, FunctionDefinition):
            found.setdefault(one.definition.name, []).append(one)
    catalog.derived["programs by name"] = found
    return found


def candidates(catalog: Catalog, schema: str | None, name: str) -> list[CatalogObject]:
    """The functions and procedures that a name may mean; the first schema of the path comes first."""
    found = named_programs(catalog).get(name)
    if not found:
        return []
    path = catalog.path if schema is None else (schema,)
    places = {one: at for at, one in enumerate(path)}
    there = [one for one in found if one.schema in places]
    return sorted(there, key=lambda one: places[one.schema])


@dataclass(frozen=True, slots=True)
class _Fitting:
    """A program with where each of its inputs comes from: a place in the call, or -1 for its default."""

    args: tuple[Base, ...]
    program: Program
    places: tuple[int, ...]


def chosen(
    found: Sequence[CatalogObject],
    catalog: Catalog,
    types: Sequence[SqlType],
    names: Sequence[str],
) -> tuple[Program, tuple[int, ...]] | None:
    """Which program a call means, and where each of its arguments comes from (-1: its default).

    Args:
        types: of the arguments of the call. names: of each, "" of one that is given by its place.

    SqlError 42725 where several fit as well.
    """
    fitting: dict[tuple[Base, ...], _Fitting] = {}
    for one in found:
        program = program_of(one, catalog)
        places = _placed(program, types, names)
        if places is None:
            continue
        given = [(program.inputs[at].type, place) for at, place in enumerate(places) if place >= 0]
        if not all(_takes(types[place], declared) for declared, place in given):
            continue
        in_order = tuple(declared.base for declared, _ in sorted(given, key=lambda pair: pair[1]))
        if in_order in fitting and len(fitting[in_order].program.inputs) <= len(program.inputs):
            continue  # one earlier on the path, or with fewer defaults
        fitting[in_order] = _Fitting(in_order, program, places)
    if not fitting:
        return None
    best = choose(list(fitting.values()), [one.base for one in types], "function")
    return None if best is None else (best.program, best.places)


def _takes(given: SqlType, declared: SqlType) -> bool:
    if given.base is Base.UNKNOWN:
        return True
    if given.base is declared.base and given.base not in {Base.ARRAY, Base.ENUM}:
        return True
    return castable(given, declared, "implicit")


def _placed(program: Program, types: Sequence[SqlType], names: Sequence[str]) -> tuple[int, ...] | None:
    """Where each input comes from; None where the call does not fit."""
    inputs = program.inputs
    if len(types) > len(inputs):
        return None
    places: dict[int, int] = {}
    known = {one.name: at for at, one in enumerate(inputs) if one.name}
    for place, name in enumerate(names):
        at = place if not name else known.get(name, -1)
        if at < 0 or at in places:
            return None
        places[at] = place
    if any(at not in places and not one.default for at, one in enumerate(inputs)):
        return None
    return tuple(places.get(at, -1) for at in range(len(inputs)))


def no_program(kind: str, name: str, types: Sequence[SqlType]) -> SqlError:
    """42883 in the words of DROP, ALTER and CALL."""
    return SqlError("42883", f"{kind} {signature_text(name, types)} does not exist")
