"""What became of a table's columns between two exports, and what that makes of rows exported before.

    definition there, definition now -> SchemaChange -> the rows of before in the columns of now

A column's place in its table is its own for ever, so a column that is renamed is known again, and one that
is dropped and added under the same name is another. Whatever gives a row another value (another type,
another key) rewrites the table, and the log has all its rows anew: what is left for the rows of before is
another name, nothing, or the one value that rows have in a column that was added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from herdpy_spark.batch import table_schema
from herdpy_spark.feed.spark_columns import SPARK
from herdpy_spark.feed.table import Array, added_values
from herdpy_spark.jobs.database import key_names
from herdpy_spark.jobs.exporting import STOP
from herdpy_spark.jobs.exporting.rows import quoted
from herdpy_spark.jobs.job import JobError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from herdpy_sql.catalog import Table


@dataclass(frozen=True)
class SchemaChange:
    """A table as it was and as it is.

    Attributes:
        chosen: names of the columns that are exported, of both; None: all.
    """

    before: Table
    after: Table
    chosen: tuple[str, ...] | None = None

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Of the exported columns, as they are now. UsageError: one that is named is not there any more."""
        if self.chosen is None:
            return self.after.visible
        there = {self.after.columns[at].name: at for at in self.after.visible}
        gone = [name for name in self.chosen if name not in there]
        if gone:
            raise UsageError(
                f"table {self.after.name} has no column {', '.join(gone)} any more",
                hint="Run a full export with other --columns (without --incremental).",
            )
        return tuple(there[name] for name in self.chosen)

    @property
    def schema(self) -> StructType:
        """The exported columns now."""
        return table_schema(self.after, [self.after.columns[at].name for at in self.places])

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the key's columns now."""
        return key_names(self.after)

    @property
    def made_anew(self) -> bool:
        """Whether it is another table, under the same name."""
        return self.before.id != self.after.id

    @cached_property
    def sources(self) -> dict[int, str | None]:
        """For each exported place, the column's name before; None: it is new."""
        if self.made_anew:
            return dict.fromkeys(self.places)
        old = self.before
        there = {at: old.columns[at].name for at in old.visible}
        return {at: there.get(at) for at in self.places}

    def lines(self) -> list[str]:
        """What changed for the export, in words; nothing where nothing did."""
        if self.made_anew:
            return [f"the table was made anew (it was number {self.before.id}, and is {self.after.id})"]
        return [*self._of_table(), *self._of_columns()]

    def _of_table(self) -> Iterator[str]:
        old, new = self.before, self.after
        if (old.schema, old.name) != (new.schema, new.name):
            yield f"the table {old.schema}.{old.name} is called {new.schema}.{new.name}"
        if old.key_positions != new.key_positions:
            yield f"the key is ({', '.join(key_names(new))}), and was ({', '.join(key_names(old))})"

    def _of_columns(self) -> Iterator[str]:
        old, new = self.before, self.after
        for at in self.places:
            name, source = new.columns[at].name, self.sources[at]
            if source is None:
                yield f'column "{name}" was added'
                continue
            if source != name:
                yield f'column "{source}" is called "{name}"'
            was, now = old.columns[at].type, new.columns[at].type
            if str(was) != str(now):
                yield f'column "{name}" is of type {now}, and was {was}'
        kept = set(self.places)
        for at in old.visible:
            if at not in kept and (self.chosen is None or old.columns[at].name in self.chosen):
                yield f'column "{old.columns[at].name}" was dropped'

    @property
    def is_other_shape(self) -> bool:
        """Whether rows that were exported before stand in other columns now."""
        return self.made_anew or self._names_before() != [self.after.columns[at].name for at in self.places]

    def _names_before(self) -> list[str | None]:
        if self.chosen is not None:
            return [self.sources[at] for at in self.places]
        dropped = [at for at in self.before.visible if at not in self.places]
        return [*self.sources.values(), *(self.before.columns[at].name for at in dropped)]

    @cached_property
    def fills(self) -> dict[int, Array]:
        """One value for each column that was added and is not NULL in rows that were there."""
        if self.made_anew:
            return {}
        values = added_values(self.after, SPARK)
        return {
            at: values[at]
            for at, source in self.sources.items()
            if source is None and values[at].null_count == 0
        }

    def carried(self, rows: DataFrame) -> DataFrame:
        """Rows of before, in the columns of now. They must be of the same table, and not rewritten since."""
        from pyspark.sql import functions as sql

        if not self.is_other_shape:
            return rows
        schema = self.schema
        if self.fills:
            rows = rows.crossJoin(sql.broadcast(self._fill_frame(rows)))
        columns = []
        for at, field in zip(self.places, schema.fields, strict=True):
            source = self.sources[at]
            if source is not None:
                column = sql.col(quoted(source))
            elif at in self.fills:
                column = sql.col(_fill_name(at))
            else:
                column = sql.lit(None).cast(field.dataType)
            columns.append(column.alias(field.name))
        return rows.select(*columns)

    def filled(self, rows: DataFrame) -> DataFrame:
        """Rows of before in the columns of now, where added ones are NULL yet, with what they have there."""
        from pyspark.sql import functions as sql

        if not self.fills:
            return rows
        names = {at: self.after.columns[at].name for at in self.fills}
        columns = {names[at]: sql.col(_fill_name(at)).alias(names[at]) for at in names}
        joined = rows.crossJoin(sql.broadcast(self._fill_frame(rows)))
        return joined.select(*(columns.get(name, sql.col(quoted(name))) for name in rows.columns))

    def _fill_frame(self, rows: DataFrame) -> DataFrame:
        import pyarrow as pa
        from pyspark.sql.types import StructField, StructType

        by_place = dict(zip(self.places, self.schema.fields, strict=True))
        fills = {_fill_name(at): array for at, array in self.fills.items()}
        schema = StructType([StructField(_fill_name(at), by_place[at].dataType) for at in self.fills])
        values = pa.RecordBatch.from_arrays(list(fills.values()), names=list(fills))

        def one(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield values

        return rows.sparkSession.range(0, 1, 1, 1).mapInArrow(one, schema)


def _fill_name(at: int) -> str:
    return f"__herdpy_fill_{at}"


def refuse(change: SchemaChange, policy: str) -> None:
    """JobError where something changed and it is not to be followed."""
    lines = change.lines()
    if lines and policy == STOP:
        raise JobError(
            f"table {change.after.name} was changed since the newest export: {'; '.join(lines)}",
            hint="Nothing was exported. --on-schema-change follow carries the change into the export,"
            " rewrite exports the table anew.",
        )
