"""Store layer, inside: what a table's definition means for its rows and index entries; errors of its keys.

One :class:`TableOps` for each definition in use: it makes keys, images and index entries from
values. The key of an index entry is the index columns' key, followed by the row's key unless the
index is unique and no column is NULL; its value is the row's key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from herdpy.codec.kinds import Datum
from herdpy.codec.rows import FIXED_WIDTHS
from herdpy_server.store.physical import MAX_PLAIN
from herdpy_sql.catalog import Index, KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import NO_KEY_UPDATE, UPDATE
from herdpy_sql.shown_rows import duplicate_key, twice


def duplicate(table: Table, parts: Sequence[KeyPart], name: str, values: Sequence[Datum]) -> SqlError:
    """The error for a row whose key, or unique index entry, exists already."""
    return duplicate_key(table, parts, name, _of_parts(parts, values))


def not_unique(table: Table, parts: Sequence[KeyPart], name: str, values: Sequence[Datum]) -> SqlError:
    """The error for a unique index that the rows there do not allow."""
    message = f'could not create unique index "{name}"'
    return twice(table, parts, name, _of_parts(parts, values), message, "is duplicated")


def _of_parts(parts: Sequence[KeyPart], values: Sequence[Datum]) -> list[Datum]:
    return [values[part.position] for part in parts]


Pick = Callable[[Sequence[Datum]], tuple[Datum, ...]]


def picker(positions: Sequence[int]) -> Pick:
    """A function that takes these columns out of a row's values."""
    if len(positions) == 1:
        (position,) = positions
        return lambda values: (values[position],)
    return itemgetter(*positions)


def key_width(table: Table, parts: Sequence[KeyPart]) -> tuple[int | None, bool]:
    """The greatest width in bytes of a key of these columns (None: no limit), and whether all have it."""
    total, exact = 0, True
    for part in parts:
        width = FIXED_WIDTHS.get(table.fields[part.position].kind)
        if width is None:
            return None, False
        nullable = not table.columns[part.position].not_null
        exact = exact and not nullable
        total += width + nullable
    return total, exact


class IndexOps:
    """Makes the entries of one index.

    Attributes:
        may_be_long: some entry's key may exceed what LMDB takes as a key.
        predicate: of a partial index, the position of the column that is true of the rows it has.
    """

    __slots__ = ("_encode", "_pick", "index", "may_be_long", "predicate", "unique")

    def __init__(self, table: Table, index: Index) -> None:
        self.index = index
        self.unique = index.unique
        self.predicate = index.predicate
        self._pick = picker([part.position for part in index.parts])
        self._encode = table.index_codec(index).encode
        own, rows = key_width(table, index.parts)[0], key_width(table, table.key)[0]
        self.may_be_long = own is None or rows is None or own + rows > MAX_PLAIN

    def entry(self, values: Sequence[Datum], key: bytes) -> tuple[bytes, bool]:
        """The key of the entry for a row, and whether it excludes any other row with these values.

        Empty for a row that a partial index does not have: no entry's key is.
        """
        if self.predicate is not None and values[self.predicate] is not True:
            return b"", False
        picked = self._pick(values)
        if self.unique and None not in picked:
            return self._encode(picked), True
        return self._encode(picked) + key, False

    def entries(self, rows: Sequence[Sequence[Datum]], keys: Sequence[bytes]) -> tuple[list[bytes], bool]:
        """The keys of the entries for many rows, all of them ``covered``, and whether all exclude others."""
        encode, picked = self._encode, list(map(self._pick, rows))
        if not self.unique:
            return [encode(one) + key for one, key in zip(picked, keys, strict=True)], False
        if not any(None in one for one in picked):
            return list(map(encode, picked)), True
        pairs = zip(picked, keys, strict=True)
        return [encode(one) if None not in one else encode(one) + key for one, key in pairs], False

    def covered(
        self, rows: Sequence[Sequence[Datum]], keys: list[bytes]
    ) -> tuple[Sequence[Sequence[Datum]], list[bytes], Sequence[int]]:
        """The rows that a partial index has, their keys, and their places; all of any other's."""
        predicate = self.predicate
        if predicate is None:
            return rows, keys, range(len(rows))
        places = [at for at, row in enumerate(rows) if row[predicate] is True]
        return [rows[at] for at in places], [keys[at] for at in places], places

    def excludes(self, values: Sequence[Datum]) -> bool:
        """Whether a row with these values keeps every other one with the same out."""
        return self.unique and None not in self._pick(values)


class TableOps:
    """Makes keys, images and index entries of one table's rows.

    Attributes:
        key: the key of a row, from its values. encode, decode: its image from its values, and back.
        fixed_key: the width that every key has, in bytes; None when it varies.
        may_be_long: some key may exceed what LMDB takes as a key.
        has_partial: some index does not have all rows.
        identity: what unique indexes are of, besides the key: the columns that another row may refer to.
    """

    __slots__ = (
        "decode",
        "encode",
        "fixed_key",
        "has_partial",
        "identity",
        "indexes",
        "key",
        "may_be_long",
        "table",
    )

    def __init__(self, table: Table) -> None:
        self.table = table
        self.encode = table.row_codec.encode
        self.decode = table.row_codec.decode
        self.key = _key_maker(table)
        width, exact = key_width(table, table.key)
        self.fixed_key = width if exact else None
        self.may_be_long = width is None or width > MAX_PLAIN
        self.indexes = tuple(IndexOps(table, index) for index in table.indexes)
        self.has_partial = any(one.predicate is not None for one in self.indexes)
        unique = (index.parts for index in table.indexes if index.unique)
        self.identity = tuple({part.position for parts in unique for part in parts})

    def row_mode(self, old: Sequence[Datum] | None, new: Sequence[Datum]) -> int:
        """How strongly a row whose key stays is locked for an update: whoever refers to it may go on."""
        if old is None or all(old[position] == new[position] for position in self.identity):
            return NO_KEY_UPDATE
        return UPDATE

    def index(self, index_id: int) -> IndexOps:
        """The one of that id; KeyError when the table has none."""
        for one in self.indexes:
            if one.index.id == index_id:
                return one
        raise KeyError(index_id)

    def entries(self, key: bytes, image: bytes) -> Iterator[tuple[int, bytes]]:
        """(index id, key of the entry) for every index, for a row as it is stored."""
        values = self.decode(image)
        for one in self.indexes:
            entry = one.entry(values, key)[0]
            if entry:
                yield one.index.id, entry


def _key_maker(table: Table) -> Callable[[Sequence[Datum]], bytes]:
    encode = table.key_codec.encode
    if len(table.key_positions) == 1:
        (position,) = table.key_positions
        return lambda values: encode((values[position],))
    pick = picker(table.key_positions)
    return lambda values: encode(pick(values))
