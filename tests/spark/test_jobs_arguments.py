"""Jobs without Spark: arguments, help, exit codes, reports; errors are reported before anything runs."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from herdpy.log.entry import encode_entry, encode_part, entry_bytes
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN, START
from herdpy_spark.jobs import JOBS, bulk_load, loading
from herdpy_spark.jobs.__main__ import run as run_module
from herdpy_spark.jobs.archived import Closed, closed_ledgers
from herdpy_spark.jobs.job import (
    JobError,
    JobRun,
    SparkJob,
    UsageError,
    job_parser,
    shown_url,
    source_options,
)
from herdpy_spark.jobs.running import job_named, main, said


def told(*argv: str) -> tuple[int, str]:
    """The exit code of a job, and what it says on standard error."""
    with redirect_stderr(io.StringIO()) as words:
        code = run_module(argv)
    return code, words.getvalue()


@pytest.mark.parametrize("name", JOBS)
def test_every_job_has_help_with_examples_that_it_takes(name: str, monkeypatch: pytest.MonkeyPatch):
    job = job_named(name)
    assert job.name == name
    parser = job_parser(job)
    text = parser.format_help()
    assert "--dry-run" in text
    for example in job.examples:
        assert example in text
        words = [word.strip("'") for word in _words(example)]
        assert words[0] == name
        parser.parse_args(words[1:])


def _words(line: str) -> list[str]:
    return shlex.split(line)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nothing"], "there are bulk-load, export, changes, verify, compact, archive"),
        (["export", "--table", "t"], "required: --to"),
        (["export", "--table", "t", "--query", "SELECT 1", "--to", "x"], "not allowed with"),
        (["export", "--table", "t", "--to", "x"], "--url is missing"),
        (["export", "--table", "t", "--to", "x", "--colums", "a"], "Is --columns meant?"),
        (["bulk-load", "--table", "t", "a.csv", "--quarantaine=b"], "Is --quarantine meant?"),
        (["changes", "--table", "t", "--format", "json", "--availablenow"], "Is --available-now meant?"),
        (["verify", "--export", "x", "--file-only"], "Is --files-only meant?"),
        (["archive", "--to", "x", "--allow-gaps"], "Is --allow-gap meant?"),
        (["archive", "--to", "x", "--zzz"], "herdpy spark archive --help lists them"),
        (
            ["export", "--query", "SELECT 1", "--to", "x", "--incremental"],
            "an incremental export has no --query",
        ),
        (["export", "--table", "t", "--to", "x", "--incremental", "--as-of", "1:1"], "is as of now"),
        (["export", "--table", "t", "--to", "x", "--format", "iceberg"], "--catalog is missing"),
        (["export", "--table", "t", "--to", "x", "--catalog", "lake"], "--catalog is for --format iceberg"),
        (
            ["export", "--table", "t", "--to", "x", "--catalog-option", "a=b"],
            "--catalog-option is for --catalog",
        ),
        (["verify", "--export", "x", "--catalog-option", "a=b"], "--catalog-option is for --catalog"),
        (["compact", "--export", "x", "--catalog-option", "a=b"], "--catalog-option is for --catalog"),
        (["compact", "--export", "x", "--target-size", "0MB"], "write 64MB"),
        (
            [
                "export",
                "--table",
                "t",
                "--to",
                "a.b",
                "--format",
                "iceberg",
                "--catalog",
                "c",
                "--compression",
                "lzo",
            ],
            "Iceberg tables have zstd",
        ),
        (["export", "--table", "t", "--to", "x", "--partitions", "0"], "a whole number from 1 on"),
        (["changes", "--table", "t", "--format", "parquet"], "--to is needed"),
        (
            ["changes", "--table", "t", "--format", "json", "--to", "x", "--apply"],
            "--apply is for --format delta",
        ),
        (["bulk-load", "--table", "t"], "no source"),
        (["bulk-load", "--table", "t", "a.csv", "b.parquet"], "say with --source"),
        (["bulk-load", "--table", "t", "a.csv", "--key", "id"], "--key and --type are for --create"),
        (["bulk-load", "--table", "t", "a.csv", "--max-bad", "1"], "--max-bad is for --quarantine"),
        (["bulk-load", "--table", "t", "a.csv", "--jdbc-url", "jdbc:x"], "and no paths"),
        (
            ["bulk-load", "--table", "t", "a.csv", "--option", "Mode=DROPMALFORMED"],
            "Mode contradicts",
        ),
        (["bulk-load", "--table", "t", "a.csv", "--option", "inferSchema=true"], "types are the table's"),
        (
            ["bulk-load", "--table", "t", "a.csv", "--null", "x", "--option", "nullvalue=y"],
            "give one of them",
        ),
        (["bulk-load", "--table", "t", "a.csv", "--columns", "a,b"], "--columns is for CSV without a header"),
        (
            ["bulk-load", "--table", "t", "--jdbc-url", "jdbc:x", "--jdbc-table", "t", "--option", "query=q"],
            "contradicts the job: give --jdbc-table",
        ),
        (["verify"], "required: --export"),
    ],
)
def test_wrong_usage_ends_with_two(argv: list[str], words: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HERDPY_URL", raising=False)
    code, text = told(*argv)
    assert words in text
    assert code == 2


def test_verifying_what_is_no_export_fails(tmp_path: Path):
    report = tmp_path / "report.json"
    code, text = told("verify", "--export", str(tmp_path), "--files-only", "--report", str(report))
    assert (code, "has no manifest" in text) == (1, True)
    said_in = json.loads(report.read_text())
    assert said_in["status"] == "failed"
    assert said_in["exit_code"] == 1
    assert "has no manifest" in said_in["error"]["message"]


def _job(run: object) -> SparkJob:
    return SparkJob("try", "Try.", (), lambda parser: None, run)  # type: ignore[arg-type]


def test_a_report_says_how_it_ended(tmp_path: Path):
    def good(this: JobRun) -> None:
        this.report["rows"] = 3

    def bad(this: JobRun) -> None:
        raise JobError("no", hint="Try yes.")

    def broken(this: JobRun) -> None:
        raise RuntimeError("at java\n  x.RowError: partition 2, row 7\n")

    def stopped(this: JobRun) -> None:
        raise KeyboardInterrupt

    ends = {}
    for name, run in (("good", good), ("bad", bad), ("broken", broken), ("stopped", stopped)):
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
            code = main(_job(run), ["--report", "-"])
        report = json.loads(out.getvalue())
        assert report["exit_code"] == code
        ends[name] = (code, report["status"], report.get("error", {}).get("message"))
    assert ends == {
        "good": (0, "done", None),
        "bad": (1, "failed", "no"),
        "broken": (1, "failed", "RowError: partition 2, row 7"),
        "stopped": (130, "interrupted", "interrupted"),
    }


def test_an_error_of_spark_is_told_by_its_innermost_error():
    text = (
        "Job aborted\n  File x\nValueError: outer\nherdpy_spark.writing.errors.RowError: row 3: NULL\n at org"
    )
    assert said(RuntimeError(text)) == "RowError: row 3: NULL"
    assert said(RuntimeError("plain\n\nsecond")) == "RuntimeError: plain\nsecond"


def test_passwords_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert shown_url("herdpy://ann:secret@db1,db2/shop?x=1") == "herdpy://ann:***@db1,db2/shop?x=1"
    secret = tmp_path / "secret"
    secret.write_text("word\nrest\n")
    given = argparse.Namespace(url="herdpy://db1/x", user="ann", password_file=secret)
    assert source_options(given)["password"] == "word"
    given.password_file = None
    monkeypatch.setenv("HERDPY_PASSWORD", "other")
    assert source_options(given)["password"] == "other"


def test_the_path_for_spark_submit_is_a_script(capsys: pytest.CaptureFixture[str]):
    assert run_module(["--path", "export"]) == 0
    assert Path(capsys.readouterr().out.strip()).name == "export.py"


def test_help_comes_without_pyspark():
    code = "import sys; sys.modules['pyspark'] = None; import herdpy_spark.jobs.__main__ as m\n"
    code += "m.run(sys.argv[1:])"
    for name in JOBS:
        done = subprocess.run(
            [sys.executable, "-c", code, name, "--help"], capture_output=True, text=True, check=False
        )
        assert f"usage: herdpy spark {name}" in done.stdout, done.stderr


def test_the_kind_of_source_is_told_by_the_names_of_files():
    parser = job_parser(bulk_load.JOB)

    def kind(*argv: str) -> str:
        return bulk_load.source_of(parser.parse_args(["--table", "t", *argv])).kind

    assert kind("a.csv", "b.csv.gz") == "csv"
    assert kind("a.jsonl") == kind("b.ndjson.zst") == kind("x/c.json") == "json"
    assert kind("x/*.parquet") == "parquet"
    assert kind("dir", "--source", "csv") == "csv"
    assert kind("--jdbc-url", "jdbc:x", "--jdbc-table", "t") == "jdbc"


def test_another_databases_driver_and_password_are_known(monkeypatch):
    monkeypatch.setenv("HERDPY_JDBC_PASSWORD", "secret")
    found = loading.jdbc("jdbc:postgresql://pg/shop", "t", {"fetchsize": "9"})
    assert found.paths == ("jdbc:postgresql://pg/shop", "t")
    assert found.options == {
        "driver": "org.postgresql.Driver",
        "password": "secret",
        "fetchsize": "9",
    }
    assert loading.jdbc("jdbc:mysql://m/shop", "t", {"driver": "x", "password": "y"}).options["driver"] == "x"
    monkeypatch.delenv("HERDPY_JDBC_PASSWORD")
    assert loading.jdbc("jdbc:rare:x", "t", {}).options == {}


def schema_of(**columns: DataType) -> StructType:
    """Columns that may be NULL."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_a_table_is_made_from_a_schema():
    schema = schema_of(
        id=LongType(), price=DecimalType(10, 2), at=TimestampType(), tags=ArrayType(StringType())
    )
    schema = StructType([*schema.fields, StructField('odd "name', StringType(), nullable=False)])
    assert loading.create_table("my table", schema, ("id",), {"at": "date"}) == (
        'CREATE TABLE "my table" (\n  "id" bigint NOT NULL,\n  "price" numeric(10,2),\n  "at" date,\n'
        '  "tags" json,\n  "odd ""name" text NOT NULL,\n  PRIMARY KEY ("id")\n)'
    )
    for key, types in ((("no",), {}), ((), {"no": "text"})):
        with pytest.raises(UsageError, match="there is no column no"):
            loading.create_table("t", schema, key, types)


def test_columns_are_matched_by_name():
    table = schema_of(id=LongType(), name=StringType())
    assert loading.columns_of(["ID", "name"], table, {"ID": "id"}) == {"id": "ID", "name": "name"}
    with pytest.raises(UsageError, match="the table has no column x"):
        loading.columns_of(["id", "x"], table, {})
    with pytest.raises(UsageError, match="the source has no column y"):
        loading.columns_of(["id"], table, {"y": "name"})


def ledgers(*infos: LedgerInfo, base: LSN = START) -> LedgerListState:
    """A ledger list."""
    return LedgerListState(version=1, log_id="00", base=base, base_crc=0, ledgers=tuple(infos))


def test_an_archive_takes_closed_ledgers_that_follow_it():
    three = [
        LedgerInfo(1, 0, True, 4),
        LedgerInfo(2, 0, True, -1),
        LedgerInfo(3, 0, True, 9),
        LedgerInfo(5, 0),
    ]
    first, third = Closed(1, LSN(-1, -1), LSN(1, 4)), Closed(3, LSN(1, 4), LSN(3, 9))
    assert closed_ledgers(ledgers(*three), None) == ([first, third], False)
    assert closed_ledgers(ledgers(*three), LSN(1, 4)) == ([third], False)
    assert closed_ledgers(ledgers(*three), LSN(3, 9)) == ([], False)
    trimmed = ledgers(*three[2:], base=LSN(1, 4))
    assert closed_ledgers(trimmed, None) == ([third], False), "where an archive begins is no gap"
    assert closed_ledgers(trimmed, LSN(1, 4)) == ([third], False)
    assert closed_ledgers(trimmed, LSN(1, 3)) == ([third], True)


def test_an_archived_entry_is_the_bytes_that_the_ledger_has():
    from herdpy.log.entry import FIRST, LAST, decode_entry

    for parts in (
        [encode_part(b"one"), encode_part(b"two")],
        [encode_part(b"x", FIRST)],
        [encode_part(b"", LAST)],
    ):
        data, _ = encode_entry(LSN(3, 1), LSN(3, 0), 7, 0, parts)
        assert entry_bytes(decode_entry(data)) == data
