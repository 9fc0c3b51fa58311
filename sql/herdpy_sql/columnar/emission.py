"""The state of one emission: what DuckDB's text of a bound query is made with, and what it brings along.

A bound query is emitted once for each level of daring. ``queries`` emits queries, and is given to the state,
so that nothing below imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from herdpy_sql.bind.nodes import TableScan, WithQuery
from herdpy_sql.duck import MAX_DIGITS, Typed, column_dec, stored_dec
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from herdpy_sql.bind.nodes import Query
    from herdpy_sql.catalog import Table
    from herdpy_sql.columnar.bounds import PartitionChoice
    from herdpy_sql.expr.coerce import Params
    from herdpy_sql.expr.nodes import ColumnRef
    from herdpy_sql.expr.scope import Numbering
    from herdpy_sql.library import Resolved
    from herdpy_sql.types import SqlType


MAX_PARAMETER = 9000
"""Numbers above it are marks of ours."""
TRANSACTION_US = 9001
STATEMENT_US = 9002
CONTEXT = 9003
"""The number of what the query's functions look things up in (``contexts``)."""
FIRST_SURROGATE = 9100
_DARING_SCALE = 20
"""With more digits after the point too few are left before it."""
_BOLD_SCALE = 8
"""The same of a result that is to fit 64 bits."""
BOLD_DIGITS = 18
"""What a DECIMAL of 64 bits holds."""
MAX_TEXT = 8 << 20
"""Characters of DuckDB text that a statement may become."""
CAREFUL, DARING, BOLD = range(3)


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A value computed from a parameter at run time, for native comparison with DECIMAL(p, s)."""

    param: int
    precision: int
    scale: int


@dataclass(slots=True)
class EmittedQuery:
    """A query as text, and its columns, which it names c0, c1, ...; and s0, ... the scales of some."""

    sql: str
    columns: list[Typed]

    def names(self) -> str:
        """Its columns' names, for an alias list."""
        scales = [f"s{i}" for i, column in enumerate(self.columns) if column.scale_sql is not None]
        return ", ".join([*(f"c{i}" for i in range(len(self.columns))), *scales]) or "none"


@dataclass(slots=True)
class EmittedScan:
    """A table that is scanned: the name of its source, its alias, and which of its columns are used.

    Attributes:
        parts: of a partitioned table: the partitions that are scanned in its place, if there are any.
        chosen: what says of parameters which of them may have rows; None: all may.
    """

    name: str
    alias: str
    scan: TableScan
    positions: dict[int, int] = field(default_factory=dict)
    parts: tuple[Table, ...] = ()
    chosen: PartitionChoice | None = None

    @property
    def sources(self) -> list[tuple[str, Table]]:
        """The names and tables of what is scanned."""
        if not self.parts:
            return [(self.name, self.scan.table)]
        return [(f"{self.name}p{nth}", part) for nth, part in enumerate(self.parts)]

    def use(self, position: int) -> int:
        """The place of the table's column among those scanned."""
        return self.positions.setdefault(position, len(self.positions))


@dataclass(slots=True)
class Emission:
    """State of one emission.

    Attributes:
        params: the statement's, whose types are known.
        emit_query: the text of a query inside another, for the modules below ``queries``; of one that is not
            ``mixed``, display scales become part of the text.
        numbering: says which relation a column is of.
        forms: the columns of relations by their numbers, once they have been asked for.
        named: the name and columns of each WITH query.
        daring: from DARING on, NUMERIC results that might have more digits than a DECIMAL are computed as one
            nevertheless, and BOLD ones of short operands in 64 bits; DuckDB tells when one does not fit.
        dared: how daring the result is at least in one place.
    """

    params: Params
    numbering: Numbering
    emit_query: Callable[[Emission, Query, bool], EmittedQuery]
    daring: int = 0
    dared: int = 0
    scans: list[EmittedScan] = field(default_factory=list)
    forms: dict[int, Typed] = field(default_factory=dict)
    named: dict[int, tuple[str, list[Typed]]] = field(default_factory=dict)
    surrogates: list[Surrogate] = field(default_factory=list)
    routines: list[Resolved] = field(default_factory=list)
    relations: int = 0

    def query(self, query: Query, *, mixed: bool = False) -> EmittedQuery:
        """The text of a query; ``mixed``: display scales are columns of their own."""
        return self.emit_query(self, query, mixed)

    def column(self, column: ColumnRef) -> Typed:
        """The text of a relation's column; notes that the scan must bring it."""
        found = self.forms.get(column.index)
        if found is None:
            found = self.forms[column.index] = self._scanned(column)
        return found

    def _scanned(self, column: ColumnRef) -> Typed:
        relation = self.numbering.relation_of(column.index)
        scan = next(one for one in self.scans if one.scan.relation is relation)
        return column_form(column.type, f"{scan.alias}.c{scan.use(column.index - relation.base)}")

    def name_of(self, query: WithQuery) -> tuple[str, list[Typed]]:
        """The name and the columns of a WITH query, which is defined."""
        return self.named[id(query)]

    def digits(self, precision: int, scale: int) -> int:
        """The precision to compute with where a result may have ``precision`` digits."""
        if precision <= MAX_DIGITS or self.daring < DARING or scale > _DARING_SCALE:
            return precision
        self.dared = max(self.dared, DARING)
        return MAX_DIGITS

    def product_digits(self, one: int, other: int, scale: int) -> int:
        """:meth:`digits` of a product of factors of so many digits each."""
        if self.daring < BOLD or max(one, other) > BOLD_DIGITS or scale > _BOLD_SCALE:
            return self.digits(one + other, scale)
        if one + other <= BOLD_DIGITS:
            return one + other
        self.dared = BOLD
        return BOLD_DIGITS

    def alias(self, letter: str = "t") -> str:
        """A fresh alias of a relation."""
        self.relations += 1
        return f"{letter}{self.relations}"

    def surrogate(self, number: int, precision: int, scale: int) -> str:
        """DuckDB text of a DECIMAL that compares with DECIMAL(precision, scale) as the parameter does."""
        self.surrogates.append(Surrogate(number, precision, scale))
        mark = FIRST_SURROGATE + len(self.surrogates) - 1
        return f"CAST(${mark} AS DECIMAL({precision + 2},{scale + 1}))"


def column_form(type_: SqlType, sql: str) -> Typed:
    """A stored column: NUMERICs with a precision come as DECIMALs, elements of arrays in wider ones."""
    if type_.base is Base.ARRAY:
        element = type_.element_type
        return Typed(sql, element, stored_dec(element), array=type_.dimensions)
    return Typed(sql, type_, column_dec(type_))


def too_complex(length: int) -> SqlError:
    """54001: what an expression or a query becomes for DuckDB is too long a text."""
    return SqlError(
        "54001",
        f"statement is too complex: the query made of it has {length} characters, and {MAX_TEXT} are allowed",
        hint="Split the expression, or compute parts of it in a subquery or a table.",
    )
