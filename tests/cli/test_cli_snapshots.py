"""`herdpy snapshot publish` and `list` of a directory; what else begins with `snapshot` copies, as before."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from herdpy.log.published import load, read_batches, snapshots


def test_a_directory_is_published_and_listed(run, db: Path, tmp_path: Path):
    place = tmp_path / "place"
    run(
        "sql", db, "-c", "CREATE TABLE t (x int PRIMARY KEY, s text); INSERT INTO t VALUES (1, 'a'), (2, 'b')"
    )
    document = json.loads(run("snapshot", "publish", db, "--to", place, "--json").stdout)
    (ref,) = snapshots(str(place), "default")
    assert (document["url"], document["lsn"]) == (str(place), str(ref.lsn))
    manifest = load(ref)
    assert document["time_us"] == manifest.time_us <= manifest.created_us
    table = manifest.table("t")
    assert table is not None
    read = pa.Table.from_batches(list(read_batches(ref, table.files, ["x", "s"])))
    assert read.to_pylist() == [{"x": 1, "s": "a"}, {"x": 2, "s": "b"}]
    # What is there is not written again, and later states come beside it.
    files = sorted(place.rglob("*"))
    run("snapshot", "publish", db, "--to", place)
    assert sorted(place.rglob("*")) == files
    run("sql", db, "-c", "INSERT INTO t VALUES (3, 'c')")
    assert "as of" in run("snapshot", "publish", db, "--to", place).stdout
    listed = json.loads(run("snapshot", "list", place, "--json").stdout)
    assert [(one["rows"], one["problem"]) for one in listed] == [(3, None), (2, None)]
    assert listed[1]["lsn"] == str(ref.lsn)


def test_damage_is_found_when_it_is_looked_for(run, db: Path, tmp_path: Path):
    place = tmp_path / "place"
    run("sql", db, "-c", "CREATE TABLE t (x int PRIMARY KEY); INSERT INTO t VALUES (1)")
    run("snapshot", "publish", db, "--to", place, "--tablespace", "herd")
    (file,) = place.rglob("*.parquet")
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(data)
    assert "checksum" not in run("snapshot", "list", place, "--tablespace", "herd").stdout
    document = json.loads(
        run("snapshot", "list", place, "--tablespace", "herd", "--check", "--json", code=1).stdout
    )
    assert file.name in document[0]["problem"]
    assert json.loads(run("snapshot", "list", place, "--json").stdout) == []


def test_refusals(run, db: Path, tmp_path: Path):
    run("sql", db, "-c", "CREATE TABLE t (x int PRIMARY KEY)")
    assert "--to" in run("snapshot", "publish", db, code=2).stderr
    assert "nowhere" in run("snapshot", "publish", db, "--to", "nowhere://x", code=1).stderr
    assert "nowhere" in run("snapshot", "list", "nowhere://x", code=1).stderr
    assert "no database" in run("snapshot", "publish", tmp_path / "none", "--to", tmp_path, code=1).stderr
    said = run("snapshot", "grpc://127.0.0.1:1", tmp_path / "copy", "--patience", "0", code=1).stderr
    assert "08006" in said
    assert "publish" in run("snapshot", "--help").stdout
