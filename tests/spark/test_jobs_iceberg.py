"""Exports to Iceberg, on a real catalog of SQL: what is committed is the table, read by others, and once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from herdpy.log.lsn import LSN
from herdpy.testing.errors import MissingSoftwareError
from herdpy.testing.java import iceberg_jars
from herdpy_spark.jobs.__main__ import run as run_job
from herdpy_spark.jobs.exporting.iceberg_table import LakeChange, LakeTable, table_name
from herdpy_spark.jobs.job import UsageError
from tests.spark.iceberg_rest import IcebergRest
from tests.spark.sinks import plain

pytestmark = pytest.mark.timeout(900)

Job = Callable[..., dict[str, Any]]
TYPES = (
    'id BIGINT, "key.2" TEXT, a SMALLINT, b INTEGER, c REAL, d DOUBLE PRECISION, e NUMERIC(9,2),'
    " f NUMERIC(38,5),"
    " g NUMERIC, h BOOLEAN, i BYTEA, j DATE, k TIMESTAMP, l TIMESTAMPTZ, m TIME, n UUID, o JSONB, p INT[],"
    ' q TEXT[], "r s" VARCHAR(5), t INTERVAL, PRIMARY KEY (id, "key.2")'
)
ROWS = (
    "(1, 'x', 1, 2, 1.5, 2.5, 12.25, 0.00001, 1.500, true, '\\x00ff', '2026-01-01',"
    " '2026-01-01 10:00:00.000001', '2026-01-01 10:00:00.000001+02', '23:59:59.999999',"
    " '00000000-0000-0000-0000-00000000000a',"
    " '{\"a\": 1}', '{1,NULL}', '{\"\",NULL,é}', 'ü', '1 day')",
    "(2, '', -32768, -2147483648, 'NaN', '-Infinity', -9999999.99, -999999999999999999999999999999999.99999,"
    " -0.0010, false, '', '0001-01-01', '1900-02-28 23:59:59.999999', '0001-01-02 00:00:00+00',"
    " '00:00:00.000001', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'null', '{}', '{}', '', '-1 month')",
    "(3, 'z', " + ", ".join(["NULL"] * 19) + ")",
)


@pytest.fixture
def catalog(tmp_path: Path) -> dict[str, str]:
    """The settings of a catalog with nothing in it."""
    return {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/ware house",
    }


@pytest.fixture
def job(spark, cluster, tmp_path, capsys, catalog) -> Job:
    """``job("export", ...)``: the report of a run with the catalog; ``code`` is what it must end with."""
    options = [word for name, value in catalog.items() for word in ("--catalog-option", f"{name}={value}")]

    def run(name: str, *argv: object, code: int = 0) -> dict[str, Any]:
        report = tmp_path / "report.json"
        given = [*map(str, argv), "--catalog", "lake", *options]
        if name == "export":
            given += ["--format", "iceberg"]
        found = run_job([name, "--url", cluster.url, "--quiet", "--report", str(report), *given])
        assert found == code, capsys.readouterr().err
        return dict(json.loads(report.read_text()))

    return run


def stored(catalog: dict[str, str], name: str, snapshot: int | None = None) -> list[str]:
    """The rows of a table, by PyIceberg."""
    table = load_catalog("lake", **catalog).load_table(table_name(name))
    rows = table.scan(snapshot_id=snapshot).to_arrow()
    return sorted(plain(row.values()) for row in rows.to_pylist())


def test_a_table_of_all_types_is_followed_through_snapshots(job: Job, catalog, spark, sql, new_name):
    table = new_name("Lake s")
    sql(f'CREATE TABLE "{table}" ({TYPES})')
    for row in ROWS:
        sql(f'INSERT INTO "{table}" VALUES {row}')
    text = ", ".join(
        f'"{name}"::text' if name in ("g", "m", "n", "o", "t") else f'"{name}"'
        for name in sql.columns(f'"{table}"')
    )

    def now() -> list[str]:
        return sorted(map(plain, sql(f'SELECT {text} FROM "{table}"')))

    to = '"a.b".orders'
    argv = ("--table", table, "--to", to, "--incremental")
    first = job("export", *argv, "--run-id", "monday", "--partitions", 1)
    assert (first["kind"], first["rows"], first["generation"]) == ("full", 3, 1)
    was = now()
    assert stored(catalog, to) == was
    sql(f'DELETE FROM "{table}" WHERE id = 1')
    sql(f'UPDATE "{table}" SET "key.2" = \'moved\' WHERE id = 2')
    second = job("export", *argv, "--run-id", "tuesday")
    assert (second["kind"], second["rows"], second["since"]) == ("incremental", 2, first["lsn"])
    assert job("export", *argv, "--run-id", "tuesday")["repeated"]
    assert stored(catalog, to) == now()
    lake = LakeTable("lake", catalog, to)
    generations = lake.generations()
    assert [one.manifest.run_id for one in generations] == ["tuesday", "monday"]
    assert generations[0].manifest.lsn == LSN.parse(second["lsn"])
    assert stored(catalog, to, generations[1].snapshot.snapshot_id) == was, "time travel"
    assert job("verify", "--export", to)["equal"]
    assert job("verify", "--export", to, "--generation", 1)["equal"]


def test_names_of_tables_in_catalogs():
    assert table_name("a.b") == ("a", "b")
    assert table_name('"a.b"."c ""d"""') == ("a.b", 'c "d"')
    for wrong in ("", "a", "a.", ".a", 'a."b', "a..b", '"a"b.c'):
        with pytest.raises(UsageError, match="names no table"):
            table_name(wrong)


@pytest.fixture
def table(sql, new_name) -> str:
    """A table with 60 rows."""
    name = new_name("iced")
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v TEXT)")
    sql(f"INSERT INTO {name} SELECT g, 'v' || g FROM generate_series(1, 60) AS s (g)")
    return name


def files_there(catalog: dict[str, str]) -> set[str]:
    """The data files in the warehouse, whoever names them."""
    return {path.name for path in Path(catalog["warehouse"].removeprefix("file://")).rglob("*.parquet")}


def files_named(catalog: dict[str, str], name: str) -> set[str]:
    """The data files that the table's snapshots name."""
    table = load_catalog("lake", **catalog).load_table(table_name(name))
    tasks = [
        task for one in table.snapshots() for task in table.scan(snapshot_id=one.snapshot_id).plan_files()
    ]
    return {task.file.file_path.rpartition("/")[2] for task in tasks}


@pytest.mark.parametrize("first", [True, False], ids=["to make the table", "to merge"])
def test_of_two_runs_at_once_one_publishes(first, job: Job, catalog, sql, table, monkeypatch):
    argv = ("--table", table, "--to", "shop.t", "--incremental")
    if not first:
        job("export", *argv)
        sql(f"UPDATE {table} SET v = 'new' WHERE id <= 20")
    commit = LakeChange.commit
    quicker: list[dict[str, Any]] = []

    def interrupted(self: LakeChange, *args: Any) -> None:
        if not quicker:
            quicker.append({})
            quicker[0] = job("export", *argv, "--run-id", "quick")
        commit(self, *args)

    monkeypatch.setattr(LakeChange, "commit", interrupted)
    slow = job("export", *argv, "--run-id", "slow", code=1)
    assert "another run changed the Iceberg table" in slow["error"]["message"]
    lake = LakeTable("lake", catalog, "shop.t")
    newest = lake.newest()
    assert newest is not None
    assert newest.manifest.run_id == "quick"
    assert len(lake.generations()) == (1 if first else 2)
    assert files_there(catalog) == files_named(catalog, "shop.t"), "the slower one left nothing"
    assert stored(catalog, "shop.t") == sorted(map(plain, sql(f"SELECT * FROM {table}")))


def test_a_run_that_dies_before_its_commit_leaves_the_table_as_it_was(
    job: Job, catalog, sql, table, monkeypatch
):
    argv = ("--table", table, "--to", "shop.t", "--incremental")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LakeChange, "commit", killed)
        job("export", *argv, code=130)
    assert LakeTable("lake", catalog, "shop.t").table is None
    job("export", *argv)
    before = stored(catalog, "shop.t")
    sql(f"DELETE FROM {table} WHERE id > 30")
    with monkeypatch.context() as patched:
        patched.setattr(LakeChange, "commit", killed)
        job("export", *argv, code=130)
    assert stored(catalog, "shop.t") == before
    # The commit is done, and its answer is lost.
    whole = Transaction.commit_transaction

    def deaf(self: Transaction) -> Any:
        whole(self)
        raise OSError("connection reset")

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "commit_transaction", deaf)
        assert job("export", *argv)["rows"] == 30
    assert stored(catalog, "shop.t") == sorted(map(plain, sql(f"SELECT * FROM {table}")))
    assert job("verify", "--export", "shop.t")["equal"]


def test_tables_that_are_not_the_exports_are_refused(job: Job, catalog, sql, table):
    lake = load_catalog("lake", **catalog)
    lake.create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    by_id = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    lake.create_table("shop.parted", schema, partition_spec=by_id)
    refused = job("export", "--table", table, "--to", "shop.parted", code=2)
    assert "is partitioned" in refused["error"]["message"]
    job("export", "--table", table, "--to", "shop.t")
    mine = lake.load_table("shop.t")
    mine.append(mine.scan(row_filter="id = 1").to_arrow())
    argv = ("--table", table, "--to", "shop.t", "--incremental")
    for name, words in (
        ("export", argv),
        ("verify", ("--export", "shop.t")),
        ("compact", ("--export", "shop.t")),
    ):
        assert "by another program" in job(name, *words, code=1)["error"]["message"]
    other = lake.create_table("shop.other", mine.schema())
    other.append(mine.scan(row_filter="id = 1").to_arrow())
    assert (
        "no export of HerdPy"
        in job("export", "--table", table, "--to", "shop.other", code=2)["error"]["message"]
    )
    job("export", "--table", table, "--to", "shop.t")
    assert stored(catalog, "shop.t") == sorted(map(plain, sql(f"SELECT * FROM {table}")))


def test_small_files_are_joined_at_their_position(
    job: Job, catalog, spark, sql, table, tmp_path, monkeypatch
):
    to = ("--table", table, "--to", "shop.t")
    job("export", *to, "--partitions", 4)
    whole = job("export", *to, "--partitions", 4)
    assert whole["files"] > 1
    with monkeypatch.context() as patched:
        patched.setattr(LakeChange, "commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        job("compact", "--export", "shop.t", code=130)
    done = job("compact", "--export", "shop.t", "--run-id", "night")
    assert (done["removed"], done["added"], done["lsn"]) == (whole["files"], 1, whole["lsn"])
    assert job("compact", "--export", "shop.t", "--run-id", "night")["repeated"]
    assert job("compact", "--export", "shop.t")["removed"] == 0
    assert job("verify", "--export", "shop.t")["equal"]
    sql(f"DELETE FROM {table} WHERE id = 5")
    assert job("export", *to, "--incremental")["kind"] == "incremental"
    assert stored(catalog, "shop.t") == sorted(map(plain, sql(f"SELECT * FROM {table}")))


DUCKDB = """
import json, sys
import duckdb, duckdb_extension_avro, duckdb_extension_iceberg
from pathlib import Path
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for module in (duckdb_extension_avro, duckdb_extension_iceberg):
    (file,) = Path(module.__file__).parent.rglob("*.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
rows = connection.execute("SELECT * FROM iceberg_scan(?)", [sys.argv[1]]).fetchall()
print(json.dumps([repr(row) for row in rows]))
"""


@pytest.mark.soak
def test_duckdb_reads_what_was_exported_through_changes_of_the_table(job: Job, catalog, sql, table, tmp_path):
    argv = ("--table", table, "--to", "shop.t", "--incremental")
    job("export", *argv, "--partitions", 3)
    sql(f"ALTER TABLE {table} RENAME COLUMN v TO w")
    sql(f"ALTER TABLE {table} ADD COLUMN v NUMERIC(9,3)")
    sql(f"UPDATE {table} SET v = id / 8.0 WHERE id < 9")
    sql(f"DELETE FROM {table} WHERE id > 50")
    job("export", *argv)
    metadata = load_catalog("lake", **catalog).load_table("shop.t").metadata_location
    uv = str(Path(sys.executable).with_name("uv"))
    versions = [f"{one}==1.5.5" for one in ("duckdb", "duckdb-extension-avro", "duckdb-extension-iceberg")]
    packages = [word for one in versions for word in ("--with", one)]
    done = subprocess.run(
        [uv, "run", "-q", "--isolated", "--no-project", *packages, "python", "-c", DUCKDB, metadata],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found = [eval(row, {"Decimal": __import__("decimal").Decimal}) for row in json.loads(done.stdout)]
    assert sorted(map(plain, found)) == sorted(map(plain, sql(f"SELECT * FROM {table}")))


@pytest.mark.soak
def test_a_catalog_of_rest_has_the_same(spark, cluster, sql, table, tmp_path, capsys):
    try:
        iceberg_jars()
    except MissingSoftwareError as error:
        pytest.skip(str(error))
    with IcebergRest(tmp_path / "rest") as rest:
        options = [
            word for name, value in rest.options.items() for word in ("--catalog-option", f"{name}={value}")
        ]

        def run(name: str, *argv: str) -> None:
            words = [name, "--url", cluster.url, "--quiet", *argv, "--catalog", "lake", *options]
            assert run_job(words) == 0, capsys.readouterr().err

        export = ("--table", table, "--format", "iceberg", "--to", "shop.t", "--incremental")
        run("export", *export, "--partitions", "3")
        sql(f"ALTER TABLE {table} RENAME COLUMN v TO w")
        sql(f"ALTER TABLE {table} ADD COLUMN v INT DEFAULT 7")
        sql(f"DELETE FROM {table} WHERE id > 50")
        run("export", *export)
        run("compact", "--export", "shop.t")
        run("verify", "--export", "shop.t")
        assert stored(rest.options, "shop.t") == sorted(map(plain, sql(f"SELECT * FROM {table}")))
        assert len(load_catalog("lake", **rest.options).load_table("shop.t").snapshots()) >= 2
