"""TPC-H: its tables made by tpchgen-cli, loaded into HerdPy and into DuckDB; its 22 queries."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import herdpy

_HERE = Path(__file__).parent
_TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
_HEAD = re.compile(r"^-- Q(\d+): .*\n", re.MULTILINE)


def make(directory: Path, scale: float) -> dict[str, pa.Table]:
    """The eight tables at a scale (1 is 6 million lineitems), written under ``directory`` and read back.

    Raises FileNotFoundError where tpchgen-cli, which the extra ``dev`` has, is not installed.
    """
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or "tpchgen-cli"
    subprocess.run(
        [program, "parquet", "-s", str(scale), "-o", str(directory)],
        check=True, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return {name: _plain(pq.read_table(directory / f"{name}.parquet")) for name in _TABLES}


def _plain(table: pa.Table) -> pa.Table:
    """With strings as HerdPy and DuckDB both take them."""
    fields = [pa.field(f.name, pa.string() if _is_text(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string_view(type_) or pa.types.is_large_string(type_) or pa.types.is_dictionary(type_)
    )


def definitions() -> list[str]:
    """The statements that define the tables."""
    text = re.sub(r"^--.*\n", "", (_HERE / "schema.sql").read_text(), flags=re.MULTILINE)
    return [statement.strip() for statement in text.split(";") if statement.strip()]


def queries(scale: float) -> dict[int, str]:
    """Query number to text, for tables of that scale (Q11's fraction depends on it)."""
    parts = _HEAD.split((_HERE / "queries.sql").read_text())[1:]
    fraction = f"{0.0001 / scale:.10f}"
    return {
        int(number): text.strip().rstrip(";").replace("{fraction}", fraction)
        for number, text in zip(parts[::2], parts[1::2], strict=True)
    }


def load_herdpy(connection: herdpy.Connection, tables: dict[str, pa.Table]) -> None:
    """Define and fill the tables in HerdPy."""
    for statement in definitions():
        connection.execute(statement)
    for name, table in tables.items():
        with connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="append")


def load_duckdb(connection: duckdb.DuckDBPyConnection, tables: dict[str, pa.Table]) -> None:
    """Define and fill tables of DuckDB's own."""
    for statement in definitions():
        connection.execute(statement)
    for name, table in tables.items():
        connection.register("source", table)
        connection.execute(f"INSERT INTO {name} SELECT * FROM source")
        connection.unregister("source")
