"""PRIMARY KEY and UNIQUE that are DEFERRABLE: looked at when a statement, or its transaction, is over.

Until then rows may have equal values, so the index of such a constraint has them all, as any index has
(``Index.unique`` is False), and a :class:`DeferrableUnique` of it looks whether rows are equal: once the
statement has written all its rows, or at COMMIT. The look locks the values until the transaction ends. So of
two transactions that add equal rows, the second one to look waits for the first, and then sees its row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from herdpy_sql.lock_modes import SHARE
from herdpy_sql.shown_rows import duplicate_key, twice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from herdpy.codec.keys import KeyCodec
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Index, Table
    from herdpy_sql.storage import Reader, View


class IndexLookup(Protocol):
    """Finds rows by the values of an index."""

    @property
    def codec(self) -> KeyCodec:
        """What makes keys of values."""

    def keys(self, view: Reader, values: Sequence[Datum]) -> Iterator[bytes]:
        """The keys of the rows that have these values."""


@dataclass(frozen=True, eq=False)
class DeferrableUnique:
    """One such constraint: its table, its index, and what finds rows by the index."""

    table: Table
    index: Index
    lookup: IndexLookup

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of which no two rows are to have equal values."""
        return tuple([part.position for part in self.index.parts])

    def values(self, row: Sequence[Datum]) -> tuple[Datum, ...]:
        """What a row has in them. Rows with a NULL are equal to none."""
        return tuple([row[part.position] for part in self.index.parts])

    def check(self, view: View, values: Sequence[Datum], nth: int | None = None) -> None:
        """See that one row at most has these values. SqlError 23505; MustWait.

        Args:
            nth: the number of the row among those of its batch, for the error.
        """
        view.lock_many(self.index.id, [self.lookup.codec.encode(values)])
        keys = list(self.lookup.keys(view.newest, values))
        if len(keys) < 2:
            return
        for key in keys:
            view.lock_row(self.table, key, SHARE)  # one that is being taken away is waited for
        error = duplicate_key(self.table, self.index.parts, self.index.name, values)
        if nth is not None:
            error.fields["nth"] = str(nth)
        raise error


def check_all(view: View, table: Table, index: Index) -> Iterator[None]:
    """Look at all rows of a table, in steps, which may have been written at once. SqlError 23505."""
    before, decode = None, table.row_codec.decode
    for count, (entry, key) in enumerate(view.index_scan(table, index), 1):
        code = entry[: -len(key)]
        if code == before:
            row = decode(view.get(table, key) or b"")
            values = [row[part.position] for part in index.parts]
            if None not in values:
                message = f'could not create unique index "{index.name}"'
                raise twice(table, index.parts, index.name, values, message, "is duplicated")
        before = code
        if not count % _STEP_ROWS:
            yield


_STEP_ROWS = 64


class Keyed(NamedTuple):
    """A row has these values now; ``nth``: its number among those of its batch."""

    unique: DeferrableUnique
    values: tuple[Datum, ...]
    nth: int | None = None
