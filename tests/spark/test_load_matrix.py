"""Types, modes, schemas and kinds of columns, drawn by a seed: a load does what SQL does, and is read back.

Each draw makes a source, a target and the target's twin. Spark reads the source and loads it into the target;
SQL does the same to the twin from the source. Then target and twin are alike, and a load of what Spark reads
of the target makes a copy that is like it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from herdpy_spark.access import find
from herdpy_spark.options import Options
from herdpy_spark.writing import begin
from herdpy_spark.writing.loads import ServerLoads
from herdpy_spark.writing.plan import WriteMode
from herdpy_spark.writing.staging import stage
from tests.spark.reading import read

TYPES = {
    "boolean": ["true", "false"],
    "smallint": ["-3"],
    "integer": ["2147483647", "0"],
    "bigint": ["-9223372036854775808"],
    "real": ["0.5", "'NaN'"],
    "double precision": ["1e300", "'-Infinity'"],
    "numeric": ["1.500", "-123456789012345678901234567890123456789012.5", "0.000001"],
    "numeric(10,2)": ["1.25", "-99999999.99"],
    "numeric(30,5)": ["1234567890123456789012345.12345"],
    "numeric(50,3)": ["12345678901234567890123456789012345678901234567.125"],
    "text": ["'größer'", "''", "'{a,\"b}'"],
    "varchar(5)": ["'ab   '"],
    "char(4)": ["'ab'", "'abcd'"],
    "bytea": [r"'\x00ff'", "''"],
    "date": ["'2026-02-28'", "'infinity'", "'-infinity'", "'0044-03-15 BC'"],
    "time": ["'12:34:56.789'", "'24:00'", "'00:00'"],
    "timestamp": ["'2026-02-28 23:59:59.999999'", "'infinity'"],
    "timestamptz": ["'2026-02-28 23:59:59+05'", "'-infinity'"],
    "uuid": ["'00000000-0000-0000-0000-000000000007'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"],
    "inet": ["'10.0.0.7/24'", "'::1'"],
    "cidr": ["'10.1.0.0/16'", "'::/0'"],
    "bit(3)": ["'101'"],
    "varbit": ["'1011'", "''"],
    "json": ["'{\"a\": [1,  null]}'"],
    "jsonb": ['\'{"b": 1.50, "a": [1,  null]}\'', "'null'"],
    "interval": ["'1 month -2 days 3.5 s'", "'-100 years'"],
    "vector(3)": ["'[1,2,3.5]'"],
    "oid": ["4294967295"],
    "name": ["'a name'"],
    "{schema}.mood": ["'ok'", "'so, so'"],
}
KINDS = {
    "n_identity": "bigint GENERATED ALWAYS AS IDENTITY",
    "n_serial": "serial UNIQUE",
    "n_next": "bigint DEFAULT nextval('{schema}.numbers')",
    "n_default": "text DEFAULT 'given' CHECK (n_default <> '')",
    "n_moment": "timestamptz DEFAULT now()",
    "n_generated": "text GENERATED ALWAYS AS ('row ' || id) STORED",
}
"""Columns that the source has not: those that count, and the others."""
COUNTING = ("n_identity", "n_serial", "n_next", "n_moment")
MODES = ("append", "overwrite", "upsert", "ignore", "delete")


@dataclass
class Draw:
    """What a seed gives.

    Attributes:
        columns: name and type of those that are loaded, besides the key.
        kinds: names of the target's others.
    """

    mode: str
    columns: dict[str, str]
    kinds: list[str]
    reads: tuple[str, str]

    @classmethod
    def of(cls, seed: int) -> Draw:
        # By turns, so that a few seeds have all types and modes; what goes with what is drawn.
        draw, types = random.Random(seed), list(TYPES)
        mode = MODES[seed % len(MODES)]
        columns = {}
        for nth in range(7):
            type_ = types[(seed * 7 + nth) % len(types)]
            columns[f"c{nth}"] = type_
            columns[f"a{nth}"] = type_ + "[]" * draw.choice([1, 1, 2, 3])
        kinds = draw.sample(list(KINDS), 4)
        reads = draw.choice([("replica", "log"), ("log", "replica")])
        return cls(mode, columns, kinds, reads)


def value(draw: random.Random, type_: str, schema: str) -> str:
    """SQL of a value of a type, now and then NULL."""
    if draw.random() < 0.2:
        return "NULL"
    element, dimensions = type_.rstrip("[]"), type_.count("[]")
    written = f"CAST({draw.choice(TYPES[element])} AS {element.format(schema=schema)})"
    if not dimensions:
        return written
    if draw.random() < 0.15:
        return "'{}'"
    parts = [written, "NULL" if draw.random() < 0.3 else written]
    for _ in range(dimensions):
        written = f"ARRAY[{', '.join(parts)}]"
        parts = [written] * 2
    return written


class Tables:
    """The tables of one draw, in a schema of its own; each has a namesake in public, which stays empty."""

    def __init__(self, sql, schema: str, draw: Draw, seed: int) -> None:
        self.sql, self.schema, self.draw = sql, schema, draw
        self._random = random.Random(seed)
        sql(f"CREATE SCHEMA {schema}")
        sql(f"CREATE TYPE {schema}.mood AS ENUM ('ok', 'so, so')")
        sql(f"CREATE SEQUENCE {schema}.numbers")
        loaded = [f"{name} {type_}" for name, type_ in draw.columns.items()]
        others = [f"{name} {KINDS[name]}" for name in draw.kinds]
        for table, columns in {"source": loaded, "target": loaded + others, "twin": loaded + others}.items():
            self.make(table, columns)
        self.make("copy", loaded)
        self.fill("source", range(12))
        self.fill("target", range(20, 26) if draw.mode == "append" else range(6, 18))
        names = ", ".join(["id", *draw.columns])
        sql(f"INSERT INTO {schema}.twin ({names}) SELECT {names} FROM {schema}.target")

    def make(self, table: str, columns: list[str]) -> None:
        """Make a table, and its namesake."""
        lines = ", ".join(["id int PRIMARY KEY", *columns]).format(schema=self.schema)
        self.sql(f"CREATE TABLE {self.schema}.{table} ({lines})")
        self.sql(f"CREATE TABLE IF NOT EXISTS public.{table} (id int)")

    def fill(self, table: str, ids: range) -> None:
        """Insert rows with values."""
        types = self.draw.columns.values()
        rows = [
            ", ".join([str(id), *(value(self._random, type_, self.schema) for type_ in types)]) for id in ids
        ]
        names = ", ".join(["id", *self.draw.columns])
        self.sql(f"INSERT INTO {self.schema}.{table} ({names}) VALUES ({'), ('.join(rows)})")

    def load_by_sql(self) -> None:
        """Do to the twin what the load does to the target."""
        mode, schema, names = self.draw.mode, self.schema, ["id", *self.draw.columns]
        if mode == "delete":
            self.sql(f"DELETE FROM {schema}.twin WHERE id IN (SELECT id FROM {schema}.source)")
            return
        if mode == "overwrite":
            self.sql(f"DELETE FROM {schema}.twin")
        sets = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
        conflict = {"upsert": f"ON CONFLICT (id) DO UPDATE SET {sets}", "ignore": "ON CONFLICT DO NOTHING"}
        listed = ", ".join(names)
        self.sql(
            f"INSERT INTO {schema}.twin ({listed}) SELECT {listed} FROM {schema}.source "
            + conflict.get(mode, "")
        )

    def rows(self, table: str, *, others: bool = True) -> list[tuple[object, ...]]:
        """All rows as SQL shows them, without what is another number in each table."""
        kinds = [name for name in self.draw.kinds if name not in COUNTING] if others else []
        shown = ", ".join(["id", *(f"{name}::text" for name in [*self.draw.columns, *kinds])])
        return self.sql(f"SELECT {shown} FROM {self.schema}.{table} ORDER BY id")

    def check_numbers(self) -> None:
        """Each row has a number of its own in columns that count."""
        for name in set(self.draw.kinds) & set(COUNTING[:3]):
            ((same, nulls),) = self.sql(
                f"SELECT count(*) - count(DISTINCT {name}), count(*) - count({name}) "
                f"FROM {self.schema}.target"
            )
            assert (same, nulls) == (0, 0), name


def check(sql, schema: str, seed: int, copy) -> None:
    """A draw; ``copy`` reads a table from a source and loads it, in a mode and without some columns."""
    draw = Draw.of(seed)
    tables = Tables(sql, schema, draw, seed)
    copy(f"{schema}.source", draw.reads[0], f"{schema}.target", draw.mode, [])
    tables.load_by_sql()
    assert tables.rows("target") == tables.rows("twin")
    tables.check_numbers()
    copy(f"{schema}.target", draw.reads[1], f"{schema}.copy", "overwrite", draw.kinds)
    assert tables.rows("copy", others=False) == tables.rows("target", others=False)
    assert sql("SELECT count(*) FROM public.target") == [(0,)]


@pytest.mark.parametrize("seed", range(8))
def test_a_load_does_what_sql_does(sql, cluster, new_name, seed):
    """What Spark would call, in this process."""

    def copy(table, source, target, mode, without):
        rows = read(cluster.url, table=table, source=source)
        schema = to_arrow_schema(rows.schema, timezone="UTC")
        names = [name for name in schema.names if name not in without]
        servers = find(Options.parse({"url": cluster.url, "table": target}, "write")).servers
        loads = ServerLoads(servers.places, servers.tablespace)
        fields = pa.schema([schema.field(name) for name in names])
        plan = begin(loads, f"{target} {seed}", target, WriteMode(mode), fields)
        staged = []
        for number, partition in enumerate(rows.partitions):
            batches = (batch.select(names) for batch in rows.reader.read(partition))
            staged.append(stage(plan, batches, number, number))
        loads.publish(plan, staged)

    check(sql, new_name("app"), seed, copy)


@pytest.mark.parametrize("seed", [8, 13])
def test_a_load_by_spark_does_what_sql_does(spark, sql, cluster, new_name, seed):
    def copy(table, source, target, mode, without):
        rows = spark.read.format("herdpy").options(**{"url": cluster.url, "table": table, "from": source})
        writer = rows.load().drop(*without).write.format("herdpy").option("url", cluster.url)
        if mode == "overwrite":
            writer.option("table", target).mode("overwrite").save()
        else:
            writer.option("table", target).option("mode", mode).mode("append").save()

    check(sql, new_name("app"), seed, copy)
