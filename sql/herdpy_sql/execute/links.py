"""Foreign keys ready to be followed: from a row to the row that it refers to, and back to those that refer.

``links_of(catalog)`` makes a :class:`ForeignKeyLink` of every foreign key, once for each catalog. A link
finds rows in a view by the best way there is: the key or unique index referred to on one side; on the other
a key or index that begins with referring columns, or a scan of the whole table. Where the types of the two
sides differ, a datum of one is converted to the other, or is :data:`MISFIT`: the other cannot hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from herdpy.codec.keys import KeyCodec, successor
from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    KeyField,
)
from herdpy_sql.execute.sources import fitting
from herdpy_sql.execute.uniques import DeferrableUnique
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog, Index, KeyPart, Table
    from herdpy_sql.foreign_keys import ForeignKey
    from herdpy_sql.storage import Reader
    from herdpy_sql.types import SqlType


MISFIT: Final = object()
Conversion = Callable[[Any], Any]
"""From a datum of one type to the equal datum of the other, or MISFIT."""

_INTEGERS = (Base.SMALLINT, Base.INTEGER, Base.BIGINT)
_FLOATS = (Base.REAL, Base.DOUBLE)
_TEXTS = (Base.TEXT, Base.VARCHAR, Base.CHAR)
_DAY_US = 86_400_000_000


def comparable(child: SqlType, parent: SqlType) -> bool:
    """Whether a column of type ``child`` can refer to one of type ``parent``."""
    here, there = child.base, parent.base
    if here is there:
        same = (child.enum.id if child.enum else 0) == (parent.enum.id if parent.enum else 0)
        held = child.element is parent.element and child.dimensions == parent.dimensions
        return same and held and here is not Base.JSON
    for family in (_INTEGERS, _FLOATS, _TEXTS, (Base.DATE, Base.TIMESTAMP)):
        if here in family and there in family:
            return True
    if there is Base.NUMERIC:
        return here in _INTEGERS
    return there in _FLOATS and (here in _INTEGERS or here is Base.NUMERIC)


def conversion(given: SqlType, wanted: SqlType) -> Conversion | None:
    """What makes a datum of type ``wanted`` of one of type ``given``; None: it is the same datum."""
    if wanted.base is Base.CHAR and given.base is not Base.CHAR:
        return lambda value: value.rstrip(" ")
    if given == wanted or (given.base in _TEXTS and wanted.base in _TEXTS):
        return None
    if wanted.base in _FLOATS:
        return None if given.base in _FLOATS else _to_float
    if given.base in _FLOATS:
        given_exactly = _from_float
    elif {given.base, wanted.base} == {Base.DATE, Base.TIMESTAMP}:
        return _to_timestamp if wanted.base is Base.TIMESTAMP else _to_date
    else:
        given_exactly = None
    fit = fitting(KeyField(wanted.kind, wanted.scale or 0), given.kind)
    if not callable(fit):
        return given_exactly

    def fitted(value: Any) -> Any:
        found, place = fit(value)
        return found if place == 0 else MISFIT

    return fitted


def _to_float(value: Any) -> Any:
    """As PostgreSQL casts it, which may round."""
    return float(value)


def _from_float(value: Any) -> Any:
    return int(value) if value.is_integer() else MISFIT


def _to_timestamp(days: int) -> int:
    if days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        return TIMESTAMP_INFINITY if days > 0 else TIMESTAMP_NEGATIVE_INFINITY
    return days * _DAY_US


def _to_date(us: int) -> Any:
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return DATE_INFINITY if us > 0 else DATE_NEGATIVE_INFINITY
    return MISFIT if us % _DAY_US else us // _DAY_US


Values = tuple["Datum", ...]
Child = tuple[bytes, bytes, Values]
"""A row that refers: its key, its image, its datums."""


@dataclass(frozen=True)
class KeyLookup:
    """A key or index that begins with some of the columns.

    Attributes:
        index: None for the key.
        order: which of the columns stand at its beginning, by their number in the foreign key.
        whole: they are all of its columns.
    """

    table: Table
    index: Index | None
    codec: KeyCodec
    order: tuple[int, ...]
    whole: bool

    def keys(self, view: Reader, values: Sequence[Datum]) -> Iterator[bytes]:
        """The keys of the rows that have these values there; of a column type that cannot hold them, none."""
        try:
            start = self.codec.encode_prefix([values[nth] for nth in self.order])
        except ValueError:
            return
        if self.index is None:
            if self.whole:
                if view.get(self.table, start) is not None:
                    yield start
            else:
                yield from [key for key, _ in view.scan(self.table, start, successor(start))]
        else:
            # A list: rows may be written between two of them.
            yield from [key for _, key in view.index_scan(self.table, self.index, start, successor(start))]


@dataclass(frozen=True, eq=False)
class ForeignKeyLink:
    """One foreign key with both of its tables."""

    key: ForeignKey
    child: Table
    parent: Table
    up: KeyLookup
    down: KeyLookup | None
    to_parent: tuple[Conversion | None, ...]
    to_child: tuple[Conversion | None, ...]
    codec: KeyCodec = field(init=False)

    def __post_init__(self) -> None:
        fields = [self.child.fields[position] for position in self.key.columns]
        object.__setattr__(
            self, "codec", KeyCodec([KeyField(one.kind, one.scale, element=one.element) for one in fields])
        )

    def referring(self, row: Sequence[Datum]) -> Values:
        """The referring values of a row of the child."""
        return tuple([row[position] for position in self.key.columns])

    def referred(self, row: Sequence[Datum]) -> Values:
        """The values of a row of the parent that rows may refer to."""
        return tuple([row[position] for position in self.key.referenced])

    def parent_key(self, view: Reader, values: Values) -> bytes | None:
        """The key of the parent's row that these referring values mean, or None."""
        converted = self.parent_values(values)
        return None if converted is None else next(self.up.keys(view, converted), None)

    def parent_values(self, values: Values) -> Values | None:
        """The parent's values that these referring ones mean; None when its columns cannot hold them."""
        return _converted(self.to_parent, values)

    def exists(self, view: Reader, values: Values) -> bool:
        """Whether a row of the parent has these values, which are the parent's."""
        return next(self.up.keys(view, values), None) is not None

    def child_values(self, values: Values) -> Values | None:
        """Referring values that mean these of the parent; None when the child's columns cannot hold them."""
        return _converted(self.to_child, values)

    def children(self, view: Reader, values: Values) -> Iterator[Child]:
        """The rows that have these referring values, all of them found before the first is given."""
        access, table, wanted = self.down, self.child, self.codec.encode(values)
        decode = table.row_codec.decode
        if access is None:
            pairs = [(key, image) for key, image in view.scan(table) if self.refers(decode(image), wanted)]
        else:
            pairs = [(key, view.get(table, key) or b"") for key in access.keys(view, values)]
        for key, image in pairs:
            row = decode(image)
            if self.refers(row, wanted):
                yield key, image, row

    def refers(self, row: Sequence[Datum], wanted: bytes) -> bool:
        """Whether the referring values of a row are those that ``codec`` encodes as ``wanted``."""
        values = self.referring(row)
        return None not in values and self.codec.encode(values) == wanted


@dataclass(frozen=True, eq=False)
class ForeignKeyLinks:
    """Every link, by the table that refers and by the table referred to; deferrable uniques by table."""

    of_child: dict[int, tuple[ForeignKeyLink, ...]]
    of_parent: dict[int, tuple[ForeignKeyLink, ...]]
    uniques: dict[int, tuple[DeferrableUnique, ...]]

    def concern(self, table_id: int) -> bool:
        """Whether rows of a table refer to others or are referred to, or may be equal for a while."""
        return table_id in self.of_child or table_id in self.of_parent or table_id in self.uniques

    def named(self, name: tuple[int, str]) -> ForeignKeyLink | None:
        """The link of a constraint: the id of its table, its name."""
        return next((one for one in self.of_child.get(name[0], ()) if one.key.name == name[1]), None)

    def unique(self, name: tuple[int, str]) -> DeferrableUnique | None:
        """The deferrable PRIMARY KEY or UNIQUE of that name: the id of its table, its name."""
        return next((one for one in self.uniques.get(name[0], ()) if one.index.name == name[1]), None)


_NONE = ForeignKeyLinks({}, {}, {})


def links_of(catalog: Catalog) -> ForeignKeyLinks:
    """The links of all foreign keys and deferrable uniques; kept with the catalog."""
    if not catalog.checks_later:
        return _NONE
    found = catalog.derived.get("links")
    if found is None:
        found = catalog.derived["links"] = _made(catalog)
    assert isinstance(found, ForeignKeyLinks)
    return found


def _made(catalog: Catalog) -> ForeignKeyLinks:
    of_child: dict[int, list[ForeignKeyLink]] = {}
    of_parent: dict[int, list[ForeignKeyLink]] = {}
    for table in catalog.tables.values():
        for one in table.foreign_keys:
            link = link_of(table, one, catalog.tables[one.table_id])
            of_child.setdefault(table.id, []).append(link)
            of_parent.setdefault(one.table_id, []).append(link)
    uniques = {table.id: tuple(_uniques(table)) for table in catalog.tables.values()}
    return ForeignKeyLinks(
        {number: tuple(those) for number, those in of_child.items()},
        {number: tuple(those) for number, those in of_parent.items()},
        {number: those for number, those in uniques.items() if those},
    )


def _uniques(table: Table) -> Iterator[DeferrableUnique]:
    for index in table.indexes:
        if index.deferrable:
            lookup = KeyLookup(table, index, table.index_codec(index), tuple(range(len(index.parts))), True)
            yield DeferrableUnique(table, index, lookup)


def link_of(child: Table, one: ForeignKey, parent: Table) -> ForeignKeyLink:
    """The link of a foreign key. LookupError when the parent has no key of the columns referred to."""
    up = unique_access(parent, one.referenced)
    if up is None:
        raise LookupError(f"{one.name}: {parent.name} has no key of the columns referred to")
    pairs = list(zip(one.columns, one.referenced, strict=True))
    kinds = [(child.columns[here].type, parent.columns[there].type) for here, there in pairs]
    return ForeignKeyLink(
        one,
        child,
        parent,
        up,
        _best_access(child, one.columns),
        tuple(conversion(here, there) for here, there in kinds),
        tuple(conversion(there, here) for here, there in kinds),
    )


def unique_access(table: Table, columns: Sequence[int]) -> KeyLookup | None:
    """The key, or a unique index, of exactly these columns."""
    for access in _accesses(table, columns):
        if access.whole and len(access.order) == len(columns) and _is_unique(access.index):
            return access
    return None


def _is_unique(index: Index | None) -> bool:
    return index is None or (index.unique and getattr(index, "predicate", None) is None)


def _best_access(table: Table, columns: Sequence[int]) -> KeyLookup | None:
    """What finds rows by the most of these columns; None: only a scan does."""
    return max(_accesses(table, columns), key=lambda one: len(one.order), default=None)


def _accesses(table: Table, columns: Sequence[int]) -> Iterator[KeyLookup]:
    candidates: list[tuple[Index | None, tuple[KeyPart, ...]]] = [(None, table.key)]
    candidates += [(one, one.parts) for one in table.indexes if getattr(one, "predicate", None) is None]
    for index, parts in candidates:
        order = []
        for part in parts:
            if part.position not in columns:
                break
            order.append(columns.index(part.position))
        if order:
            codec = table.key_codec if index is None else table.index_codec(index)
            yield KeyLookup(table, index, codec, tuple(order), len(order) == len(parts))


def _converted(conversions: Sequence[Conversion | None], values: Values) -> Values | None:
    """The values as the other side has them; None when it cannot have one of them."""
    found = []
    for convert, value in zip(conversions, values, strict=True):
        converted = value if convert is None else convert(value)
        if converted is MISFIT:
            return None
        found.append(converted)
    return tuple(found)
