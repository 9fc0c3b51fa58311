"""A SELECT over several tables of one state, run where its one partition is read. Pure but for the running.

The engine is that of a server's large queries, so the SQL means the same. Only the columns and keys that the
query needs are read; they must fit into the task's memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from herdpy.codec.arrow import arrow_type
from herdpy_spark.batch.rows import BatchRows
from herdpy_spark.options import OptionError
from herdpy_sql.catalog import PUBLIC, Catalog
from herdpy_sql.columnar import ColumnarQuery, Scan, translate
from herdpy_sql.definitions import decode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import parse, split
from herdpy_sql.storage import Clock
from herdpy_sql.types import SqlType

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
                names[f"{schema}.{name}"] = None
            elif schema or name not in common:
                names[name] = None
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
