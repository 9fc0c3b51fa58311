"""What is read of tables: columns and a condition of one, or a SELECT over several. Above ``rows``.

The engine is that of a server's large queries, so SQL means the same, whether rows come from a replica or
from the log. A query reads only the columns and keys that it needs; they must fit into its task's memory.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from herdpy.codec.arrow import arrow_type
from herdpy_spark.batch.rows import BatchRows
from herdpy_spark.options import OptionError
from herdpy_sql.catalog import PUBLIC, Catalog, Table, exact_name
from herdpy_sql.clock import Clock
from herdpy_sql.columnar import ColumnarQuery, Scan, translate
from herdpy_sql.definitions import decode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import parse, split
from herdpy_sql.types import SqlType

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


_SYSTEM = ("pg_catalog", "information_schema", "herdpy")


@dataclass(frozen=True, slots=True)
class BatchQuery:
    """A SELECT.

    Attributes:
        now_us: the time that it sees.
    """

    text: str
    now_us: int

    @classmethod
    def of(cls, text: str) -> BatchQuery:
        """The query of the option. OptionError when it is none."""
        made = cls(text, time.time_ns() // 1000)
        made.tables()
        return made

    def _tree(self) -> exp.Expression:
        statements = split(self.text)
        tree: object = parse(statements[0]) if len(statements) == 1 else None
        if not isinstance(tree, exp.Expression) or not isinstance(tree, exp.Query):
            raise SqlError("42601", "it is not one SELECT")
        return tree

    def tables(self) -> tuple[str, ...]:
        """The tables that it reads, as ``names_meant`` takes them."""
        with _as_option():
            tree = self._tree()
        names: dict[str, None] = {}
        common = {_name(one.args["alias"].this) for one in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            if not isinstance(table.this, exp.Identifier):
                continue  # a function
            schema = _name(table.args["db"]) if table.db else ""
            if table.catalog or schema in _SYSTEM:
                raise OptionError(f"the option query: {table.sql('postgres')} is no table of the tablespace")
            name = _name(table.this)
            if schema not in ("", PUBLIC):
                names[exact_name(name, schema)] = None
            elif schema or name not in common:
                names[exact_name(name)] = None
        return tuple(names)

    def columns(self, definitions: Sequence[bytes]) -> tuple[tuple[str, SqlType], ...]:
        """Of the result. OptionError when the query makes no sense, or two columns have one name."""
        found = tuple((column.name, column.type) for column in self._translated(definitions).columns)
        names = [name for name, _type in found]
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"the option query: two columns are called {name}; give them names (AS)")
        return found

    def run(self, rows: BatchRows) -> Iterator[pa.RecordBatch]:
        """The result's rows. SqlError for what the query meets."""
        query = self._translated(rows.definitions)
        ids = [decode_table(one).id for one in rows.definitions]
        sources: dict[str, pa.Table] = {}
        for scan in query.scans:
            names = [scan.table.columns[at].name for at in scan.positions]
            number = ids.index(scan.table.id)
            batches = list(rows.read(number, names, *scan.bounds(())))
            sources[scan.name] = pa.Table.from_batches(batches) if batches else _empty(scan)
        yield from query.stream(sources, (), Clock(self.now_us, self.now_us))

    def _translated(self, definitions: Sequence[bytes]) -> ColumnarQuery:
        catalog = Catalog()
        for definition in definitions:
            catalog = catalog.with_table(decode_table(definition))
        with _as_option():
            query = translate(self._tree(), catalog)
        if query.param_types:
            raise OptionError("the option query: it has parameters ($1), which cannot be given")
        return query


def _empty(scan: Scan) -> pa.Table:
    columns = [scan.table.columns[at] for at in scan.positions]
    fields = [pa.field(one.name, arrow_type(one.type.field, one.type.precision)) for one in columns]
    return pa.schema(fields).empty_table()


def _name(identifier: exp.Expression) -> str:
    """As PostgreSQL folds it."""
    text: str = identifier.name
    return text if identifier.args.get("quoted") else text.lower()


@contextmanager
def _as_option() -> Iterator[None]:
    try:
        yield
    except SqlError as error:
        raise OptionError(f"the option query: {error.message} [{error.sqlstate}]") from error
