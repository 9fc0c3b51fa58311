"""Exports and archives in a store of objects, and in partitions as Hive has them: they hold the table."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import herdpy
from herdpy.log.entry import decode_entry
from herdpy.log.lsn import LSN
from herdpy_spark.jobs import archive
from herdpy_spark.jobs.__main__ import run as run_job
from herdpy_spark.jobs.exporting import changeset, export_files, read_export
from herdpy_spark.jobs.exporting.changeset import FileWriter
from herdpy_spark.jobs.exporting.generations import (
    DataFile,
    ExportManifest,
    ExportPlace,
    Generations,
    LocalPlace,
    place,
)
from herdpy_spark.jobs.exporting.objects import ObjectPlace, StoreAddress
from herdpy_spark.jobs.exporting.task_files import partition_of, partition_path, row_files
from herdpy_spark.jobs.job import JobError, UsageError
from herdpy_spark.jobs.running import settings
from tests.support.object_store import SECRET, s3_store, store_files

pytestmark = pytest.mark.timeout(600)

BUCKET = "lake"
Job = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """A bucket's URL."""
    with s3_store(BUCKET):
        yield f"s3://{BUCKET}"


@pytest.fixture
def to(store: str, new_name) -> str:
    """A directory of the bucket with nothing in it."""
    return f"{store}/{new_name('export')}"


@pytest.fixture(params=["local", "memory", "s3"])
def at(request, tmp_path: Path, new_name) -> ExportPlace:
    """A place of each kind."""
    if request.param == "s3":
        return place(f"{request.getfixturevalue('store')}/{new_name('place')}")
    return place(f"memory://{new_name('place')}" if request.param == "memory" else str(tmp_path / "a b%"))


def test_places_are_alike(at: ExportPlace):
    assert (at.names("d"), at.sizes("d"), at.size("d/f")) == ([], {}, None)
    assert at.is_exclusive
    assert at.create("d/f", b"first\x00\xff")
    assert not at.create("d/f", b"second")
    assert at.create("d/e=a%2Fb/g", b"")
    assert (at.read("d/f"), at.size("d/f"), at.size("d/g")) == (b"first\x00\xff", 7, None)
    assert at.names("d") == ["e=a%2Fb", "f"]
    assert at.sizes("d") == {"d/f": 7, "d/e=a%2Fb/g": 0}
    with pytest.raises(FileNotFoundError):
        at.read("d/g")
    at.remove("d/f")
    assert at.sizes("d") == {"d/e=a%2Fb/g": 0}
    at.remove("d")
    at.remove("d")
    assert (at.names("d"), at.sizes("d")) == ([], {})


@pytest.mark.parametrize("ignores", [True, False])
def test_a_store_without_conditions_is_found_out(new_name, monkeypatch, ignores: bool):
    at = ObjectPlace(f"memory://{new_name('plain')}")
    plain = type(at._files).pipe_file

    def pipe_file(self, path, value, mode="overwrite"):
        if mode == "create" and not ignores:
            raise NotImplementedError("If-None-Match")
        plain(self, path, value)

    monkeypatch.setattr(type(at._files), "pipe_file", pipe_file)
    assert not at.is_exclusive
    assert at.create("d/f", b"first")
    assert not at.create("d/f", b"second")
    assert (at.read("d/f"), at.names("_herdpy")) == (b"first", [])


def test_an_answer_that_was_lost_is_no_defeat(new_name):
    at = ObjectPlace(f"memory://{new_name('retried')}")
    assert at.create("d/f", b"mine")
    assert at.create("d/f", b"mine"), "the client's own request, repeated, met its object"


def test_credentials_are_not_shown():
    assert SECRET not in repr(StoreAddress("s3://a/b", {"secret": SECRET}))


def test_a_store_whose_package_is_missing_is_named(monkeypatch):
    def missing(*_: object, **__: object) -> None:
        raise ImportError("Please install gcsfs")

    monkeypatch.setattr(fsspec, "url_to_fs", missing)
    with pytest.raises(JobError, match="gs://a/b needs a package") as caught:
        place("gs://a/b")
    assert caught.value.hint == 'pip install "gcsfs"'


def test_partitions_are_named_as_hive_names_them():
    moment = dt.datetime(2026, 3, 1, 1, 2, 3, 4, dt.timezone(dt.timedelta(hours=1)))
    cases = [
        (None, "__HIVE_DEFAULT_PARTITION__"),
        ("", "__HIVE_DEFAULT_PARTITION__"),
        ("a/b=c%:\"'\n\\", "a%2Fb%3Dc%25%3A%22%27%0A%5C"),
        ("Köln 1", "Köln 1"),
        (True, "true"),
        (Decimal("1.50"), "1.50"),
        (dt.date(1, 2, 3), "0001-02-03"),
        (moment, "2026-03-01 00%3A02%3A03.000004"),
        (moment.replace(tzinfo=None), "2026-03-01 01%3A02%3A03.000004"),
    ]
    assert [partition_path(["v"], [value]) for value, _ in cases] == [f"v={text}" for _, text in cases]
    path = f"_data/00000001-r/{partition_path(['a b', 'x/y'], [1, None])}/part-1.parquet"
    assert partition_of(path) == "a b=1/x%2Fy=__HIVE_DEFAULT_PARTITION__"
    assert partition_of("_data/00000001-r/part-1.parquet") == ""


ROW = "id bigint, `a b` string, day timestamp, v string"
FEED = (
    "op string, key struct<id: bigint>, after struct<id: bigint, `a b`: string, day: timestamp, v: string>,"
    " schema string, sequence struct<ledger: bigint, entry: bigint, transaction: int, position: bigint>"
)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", pytest.param("America/St_Johns", marks=pytest.mark.soak)])
def test_merging_touches_changed_partitions_alone(spark, tmp_path: Path, zone: str):
    """Rows move between partitions, NULL and '' are in one, and Spark's time zone changes no names."""
    generations = Generations(LocalPlace(tmp_path / "a b"))
    files = row_files(generations.place, "parquet", None, ("a b", "day"))
    writer = FileWriter(spark, generations, files, run_id="r")
    day = dt.datetime(2026, 3, 1, 23, 30, tzinfo=dt.UTC)
    regions = ["EU", "US", None, "", "a/b"]
    model = {n: (n, regions[n % 5], day + dt.timedelta(days=n % 2), f"v{n}") for n in range(40)}

    def feed(changes: list[tuple[Any, ...]]) -> Any:
        rows = [(op, (k,), after, None, (1, n, 0, 0)) for n, (op, k, after) in enumerate(changes)]
        return changeset.net(spark.createDataFrame(rows, FEED), schema, ("id",))

    with settings(spark, spark__sql__session__timeZone=zone):
        frame = spark.createDataFrame(list(model.values()), ROW)
        schema = frame.schema
        first = writer.write(1, frame, ("id",))
        assert {partition_of(one.path) for one in first} == {
            partition_path(["a b", "day"], row[1:3]) for row in model.values()
        }
        before = ExportManifest(
            1, "full", "t", LSN(1, 1), "parquet", json.loads(schema.json()), ("id",), first, "r", "now",
            partition_by=("a b", "day"),
        )  # fmt: skip
        model[0] = (0, "moved", day, "v0")
        model[1] = (1, "US", model[1][2], "other")
        del model[2]
        after = writer.merge(
            2, before, schema, feed([("update", 0, model[0]), ("update", 1, model[1]), ("delete", 2, None)])
        )
        stored = files.read(spark, [one.path for one in after], schema)
        found = {row["id"]: tuple(row.values()) for row in stored.toArrow().to_pylist()}
    assert found == model
    changed = {partition_of(one.path) for one in {*first} ^ {*after}}
    when = [partition_path(["a b", "day"], [region, day + dt.timedelta(days=odd)]) for region, odd in
            (("EU", 0), ("US", 1), (None, 0), ("moved", 0))]  # fmt: skip
    assert changed == set(when)
    spread = spark.read.parquet(*(generations.place.join(one.path) for one in after))
    assert spread.count() == len(model), "Spark's own source reads files with such names, too"


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., None]:
    """``shop("UPDATE ...", ...)`` on a database in a directory, with a table in another schema."""

    def run(*statements: str) -> None:
        with herdpy.connect(tmp_path / "shop", autocommit=True) as connection:
            for one in statements:
                connection.execute(one)

    run(
        "CREATE SCHEMA app",
        "CREATE TABLE sales (id INT PRIMARY KEY)",
        'CREATE TABLE app.sales (id INT PRIMARY KEY, region TEXT, day DATE, "n b" NUMERIC(9,2))',
        "INSERT INTO app.sales SELECT g, (ARRAY['EU','US',NULL,''])[1 + g % 4], DATE '2026-03-01' + g % 3, g"
        " FROM generate_series(1, 60) AS s (g)",
    )
    return run


@pytest.fixture
def job(spark, tmp_path: Path, capsys) -> Job:
    """``job("export", ...)``: the report of a run; ``code`` is what it must end with."""

    def run(name: str, *argv: object, code: int = 0) -> dict[str, Any]:
        report = tmp_path / "report.json"
        given = ["--url", f"herdpy://{tmp_path}/shop", "--report", str(report), *map(str, argv)]
        found = run_job([name, *given])
        shown = capsys.readouterr().err
        assert found == code, shown
        assert SECRET not in shown + report.read_text()
        return dict(json.loads(report.read_text()))

    return run


def rows_of(tmp_path: Path) -> set[tuple[Any, ...]]:
    """What the table has."""
    with herdpy.connect(tmp_path / "shop") as connection:
        return set(connection.execute("SELECT * FROM app.sales").fetchall())


ARGV = ("--table", "app.sales", "--partition-by", "region,day", "--partitions", 2)


def test_a_table_is_exported_to_a_store_and_followed(spark, job: Job, shop, to: str, tmp_path: Path):
    first = job("export", *ARGV, "--to", to, "--incremental")
    assert (first["generation"], first["kind"], first["rows"]) == (1, "full", 60)
    before = export_files(to)
    shop(
        "UPDATE app.sales SET region = 'Köln/1' WHERE id = 4",  # of EU's second day
        "DELETE FROM app.sales WHERE region = 'US' AND day = '2026-03-01'",
        "INSERT INTO app.sales VALUES (100, NULL, '2026-03-02', NULL)",
    )
    second = job("export", *ARGV, "--to", to, "--incremental")
    assert second["kind"] == "incremental"
    assert second.get("exclusive") is None
    after = export_files(to)
    untouched = {"/region=EU/day=2026-03-01", "/region=EU/day=2026-03-03", "/region=US/day=2026-03-02"}
    assert all(any(part in one for one in {*before} & {*after}) for part in untouched)
    assert not any("/region=US/day=2026-03-01" in one for one in after)
    assert any("/region=Köln%2F1/day=" in one for one in after)
    wanted = rows_of(tmp_path)
    assert {tuple(row) for row in read_export(spark, to).collect()} == wanted
    paths = [one.removeprefix("s3://") for one in after]
    parts = ds.partitioning(pa.schema([("region", pa.string()), ("day", pa.date32())]), flavor="hive")
    files: Any = store_files()
    found = ds.dataset(paths, filesystem=files, partitioning=parts, format="parquet").to_table()
    assert {tuple(row.values()) for row in found.select(["id"]).to_pylist()} == {row[:1] for row in wanted}
    job("verify", "--export", to)
    assert not [name for name in store_files().find(to) if "/_scratch/" in name or ".probe" in name]


def test_another_partitioning_is_refused(job: Job, shop, to: str, tmp_path: Path):
    job("export", *ARGV, "--to", to)
    argv = ("export", "--table", "app.sales", "--to")
    other = job(*argv, to, "--partition-by", "day", "--incremental", code=2)
    assert "has another --partition-by" in other["error"]["message"]
    for columns, said in (("id,x", "no column x"), ("id,region,day,n b", "names all columns")):
        found = job(*argv, tmp_path / "x", "--partition-by", columns, code=2)
        assert said in found["error"]["message"]
    found = job(*argv, to, "--format", "csv", code=2)
    assert "is for local directories" in found["error"]["message"]
    found = job(*argv, tmp_path / "x", "--format", "csv", "--partition-by", "day", code=2)
    assert "is for --format parquet" in found["error"]["message"]
    assert "--compression rar" in job(*argv, to, "--compression", "rar", code=2)["error"]["message"]


def test_columns_whose_values_are_no_names_are_refused(spark, tmp_path: Path):
    from herdpy_spark.jobs.exporting.task_files import check_partitions

    frame = spark.createDataFrame([], "id int, f double, b binary, a array<int>")
    for name in "fba":
        with pytest.raises(UsageError, match=f"column {name} is of type"):
            check_partitions((name,), frame.schema)


@pytest.mark.soak
def test_a_run_that_ends_before_its_manifest_leaves_the_export(
    job: Job, shop, to: str, monkeypatch, tmp_path
):
    """Killed between the files and the manifest: the next run goes on, and sweeps what it left."""
    job("export", *ARGV, "--to", to)
    files = set(store_files().find(to))
    shop("UPDATE app.sales SET region = 'EU' WHERE id <= 30")
    with monkeypatch.context() as patched:
        patched.setattr(ObjectPlace, "create", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        job("export", *ARGV, "--to", to, "--incremental", code=130)
    left = set(store_files().find(to)) - files
    assert left, "the files of the second generation are there"
    assert job("verify", "--export", to)["generation"] == 1
    assert job("export", *ARGV, "--to", to, "--incremental", "--keep", 1)["generation"] == 2
    assert not left & set(store_files().find(to))
    job("verify", "--export", to)


@pytest.mark.soak
def test_of_two_runs_at_once_one_publishes(job: Job, shop, to: str, monkeypatch):
    publish = Generations.publish

    def second(self: Generations, manifest: ExportManifest) -> None:
        monkeypatch.setattr(Generations, "publish", publish)
        job("export", *ARGV, "--to", to, "--run-id", "quicker")
        publish(self, manifest)

    monkeypatch.setattr(Generations, "publish", second)
    lost = job("export", *ARGV, "--to", to, "--run-id", "slower", code=1)
    assert "published by another run" in lost["error"]["message"]
    assert Generations(place(to)).load(1).run_id == "quicker"
    job("verify", "--export", to)


@pytest.mark.soak
def test_a_store_that_cannot_refuse_is_told(job: Job, shop, to: str, monkeypatch):
    monkeypatch.setattr(ObjectPlace, "_tried", lambda _: False)
    assert job("export", *ARGV, "--to", to)["exclusive"] is False
    job("verify", "--export", to)


def test_an_attempt_that_is_lost_leaves_no_rows(spark, tmp_path: Path):
    """A task that fails after it has written a file is tried again; rows are there once."""
    generations = Generations(LocalPlace(tmp_path / "export"))
    files = row_files(generations.place, "parquet", None, ("part",))
    writer = FileWriter(spark, generations, files, run_id="r")
    mark = str(tmp_path / "failed")

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not Path(mark).exists():
            Path(mark).touch()
            raise RuntimeError("lost")

    frame = spark.range(30).selectExpr("id", "id % 3 AS part").coalesce(1)
    real = files.arranged
    files.arranged = lambda one, key=(): real(one, key).mapInArrow(fail_once, one.schema)  # type: ignore[method-assign]
    written = writer.write(1, frame)
    assert Path(mark).exists()
    assert sum(one.fingerprint.rows for one in written) == 30
    assert set(generations.place.sizes("_data")) == {one.path for one in written}


def test_the_log_is_archived_to_a_store_and_added_to(spark, job: Job, shop, to: str, monkeypatch):
    monkeypatch.setattr(archive, "_LEDGERS", 2)
    for number in range(4):
        shop(f"UPDATE app.sales SET day = day WHERE id = {number}")
    first = job("archive", "--to", to)
    assert first["generation"] == -(-len(first["ledgers"]) // 2), "two ledgers are published at a time"
    again = job("archive", "--to", to)
    assert again["ledgers"] == []
    shop("UPDATE app.sales SET day = day + 1", "DELETE FROM app.sales WHERE id > 50")
    second = job("archive", "--to", to)
    assert second["ledgers"]
    assert not set(first["ledgers"]) & set(second["ledgers"])
    rows = read_export(spark, to).where("kind = 'entry'").collect()
    entries = [decode_entry(bytes(row["payload"])).lsn for row in rows]
    assert len(set(entries)) == len(entries)
    assert {one.ledger_id for one in entries} == {*first["ledgers"], *second["ledgers"]}
    job("verify", "--export", to, "--files-only")


@pytest.mark.soak
def test_an_archive_that_is_killed_goes_on_with_what_is_missing(job: Job, shop, to: str, monkeypatch):
    monkeypatch.setattr(archive, "_LEDGERS", 1)
    for number in range(3):
        shop(f"UPDATE app.sales SET day = day WHERE id = {number}")
    publish, published = Generations.publish, []

    def die_at_the_second(self: Generations, manifest: ExportManifest) -> None:
        if published:
            raise KeyboardInterrupt
        published.append(manifest.lsn)
        publish(self, manifest)

    with monkeypatch.context() as patched:
        patched.setattr(Generations, "publish", die_at_the_second)
        killed = job("archive", "--to", to, code=130)
    assert job("archive", "--to", to)["ledgers"] == killed["ledgers"][1:]


def test_what_a_sweep_leaves_in_a_store(to: str):
    generations = Generations(place(to))

    def put(number: int, run: str, part: str) -> DataFile:
        name = f"{generations.directory(number, run)}/{part}/x.parquet"
        assert generations.place.create(name, b"abc")
        return DataFile(name, 3, changeset.Fingerprint(1, 1, 1))

    one, stale, lost = put(1, "a", "r=1"), put(1, "a", "r=2"), put(1, "crashed", "r=1")
    base = ExportManifest(1, "full", "t", LSN(1, 1), "parquet", {}, ("id",), (one, stale), "a", "now")
    generations.publish(base)
    generations.publish(replace(base, generation=2, files=(one, two := put(2, "b", "r=2"))))
    generations.sweep(keep=1)
    assert set(generations.place.sizes("_data")) == {one.path, two.path}
    assert lost.path not in generations.place.sizes("_data")
