"""The sequences of SERIAL and identity columns: CREATE TABLE and ALTER TABLE make them and count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from herdpy_sql.objects import FIRST_USER_OID, CatalogObject
from herdpy_sql.sequences import SequenceState, fresh_name, sequence_default, sequences_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Compiled
    from herdpy_sql.objects import SequenceDefinition
    from herdpy_sql.storage import Clock, View


def with_sequences(view: View, table: Table, wanted: Mapping[int, SequenceDefinition]) -> Table:
    """Make the sequences of columns, by position: the definition of ``table``, whose id is settled, with
    the columns' defaults that take their values."""
    columns = list(table.columns)
    names = [name for schema, name in view.catalog.relations if schema == table.schema]
    names += [table.name, table.key_name, *(index.name for index in table.indexes)]
    for position, definition in wanted.items():
        column = columns[position]
        name = fresh_name(table.name, (column.name,), "seq", names)
        names.append(name)
        owned = msgspec.structs.replace(definition, owner=(table.id, position))
        one = CatalogObject(view.next_id, table.schema, name, owned)
        view.put_object(one)
        view.restart_sequence(one, SequenceState(owned.start, False))
        columns[position] = replace(column, default=sequence_default(one))
    return replace(table, columns=tuple(columns)) if wanted else table


def value_takers(table: Table, positions: Iterable[int]) -> dict[int, Compiled]:
    """What gives a row there its value of each such column: the next of the column's sequence."""
    return {
        position: _taker(sequence)
        for position in positions
        for sequence in sequences_of(table.columns[position].default)
    }


def _taker(sequence: int) -> Compiled:
    text = str(sequence + FIRST_USER_OID)

    def take(row: Sequence[Datum], params: Sequence[Datum], clock: Clock) -> Datum:
        assert clock.sequences is not None
        return clock.sequences.nextval(text)

    return take
