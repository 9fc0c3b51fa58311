"""What is wanted of a table: columns, and the condition that rows fulfil. Pure; made once, sent to the tasks.

The condition is SQL as HerdPy means it. Every task evaluates it on the batches that it reads, by the same
engine as a server's queries, so that rows read from a replica and from the log are judged alike.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from herdpy_spark.options import OptionError
from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.columnar import ColumnarQuery, translate
from herdpy_sql.definitions import decode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import parse, split
from herdpy_sql.storage import Clock

_NOT_OF_A_ROW = (
    exp.Subquery,
    exp.Select,
    exp.Exists,
    exp.AggFunc,
    exp.Window,
    exp.Parameter,
    exp.Placeholder,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns of a table, of rows that fulfil a condition.

    Attributes:
        definition: the table's, as the catalog's JSON.
        columns: of the result, in order.
        where: the condition; None: all rows.
        now_us: the time that the condition sees, the same for every task.
    """

    definition: bytes
    columns: tuple[str, ...]
    where: str | None
    now_us: int

    @classmethod
    def of(
        cls, definition: bytes, columns: Sequence[str] | None, where: str | None, now_us: int
    ) -> Selection:
        """All visible columns where none are named.

        Raises:
            OptionError: there is no such column, or the condition makes no sense.
        """
        table = decode_table(definition)
        visible = [table.columns[at].name for at in table.visible]
        for name in columns or ():
            if name not in visible:
                raise OptionError(
                    f"the option columns: table {table.name} has no column {name}, but {', '.join(visible)}"
                )
        made = cls(definition, tuple(columns or visible), where, now_us)
        if where is not None:
            _condition(made)
        return made

    @property
    def table(self) -> Table:
        """The definition."""
        return _decoded(self.definition)

    def needed(self) -> tuple[str, ...]:
        """The columns to read, in this order."""
        if self.where is None:
            return self.columns
        (scan,) = _condition(self).scans
        return tuple(self.table.columns[at].name for at in scan.positions)

    def keys(self) -> tuple[bytes | None, bytes | None]:
        """What the condition says of encoded keys: from, and up to; None: nothing."""
        if self.where is None:
            return None, None
        (scan,) = _condition(self).scans
        return scan.bounds(())

    def apply(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The wanted rows of batches of the needed columns; empty ones are left out.

        Raises:
            SqlError: what the condition meets, such as a division by zero.
        """
        if self.where is None:
            yield from batches
            return
        query = _condition(self)
        (scan,) = query.scans
        clock = Clock(self.now_us, self.now_us)
        for batch in batches:
            table = pa.Table.from_batches([batch.select(range(len(scan.positions)))])
            found = query.run({scan.name: table}, (), clock)
            for one in found.combine_chunks().to_batches():
                if one.num_rows:
                    yield one


@functools.lru_cache(maxsize=64)
def _decoded(definition: bytes) -> Table:
    return decode_table(definition)


@functools.lru_cache(maxsize=64)
def _condition(selection: Selection) -> ColumnarQuery:
    """The selection as a query of its table."""
    assert selection.where is not None
    table = selection.table
    try:
        condition = parsed_condition(selection.where)
        query = exp.select(*(exp.column(name, quoted=True) for name in selection.columns))
        query = query.from_(exp.table_(table.name, quoted=True)).where(condition, copy=False)
        return translate(query, Catalog().with_table(table))
    except SqlError as error:
        raise OptionError(f"the option where: {error.message} [{error.sqlstate}]") from error


def parsed_condition(where: str) -> exp.Expression:
    """The tree of a condition on one row.

    Raises:
        SqlError: 42601 it is none.
        OptionError: it asks for more than a row can tell.
    """
    statements = split(f"SELECT WHERE {where}\n")
    tree = parse(statements[0]) if len(statements) == 1 else None
    if not isinstance(tree, exp.Select) or {name for name, value in tree.args.items() if value} != {"where"}:
        raise SqlError("42601", f"{where!r} is no condition")
    for node in tree.find_all(*_NOT_OF_A_ROW):
        if node is not tree:
            raise OptionError(
                f"the option where: a condition looks at one row, and this has {node.sql('postgres')}: "
                "use the option query"
            )
    condition: exp.Expression = tree.args["where"].this
    return condition
