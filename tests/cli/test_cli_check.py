"""``herdpy log``, ``check``, ``info`` and ``checkpoint``."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess

import lmdb
import pytest

import herdpy
from tests.cli.processes import command, environment


@pytest.fixture
def filled(run, db):
    run(
        "sql",
        db,
        "-c",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)",
        "-c",
        "CREATE INDEX by_name ON t (name)",
    )
    for n in range(5):
        run("sql", db, "-c", f"INSERT INTO t VALUES ({n}, 'name {n}')")
    run("sql", db, "-c", "UPDATE t SET name = 'other' WHERE id = 1; DELETE FROM t WHERE id = 2")
    return db


def test_ledgers_are_listed(run, filled):
    listed = json.loads(run("log", filled, "--json").stdout)
    assert sum(one["entries"] or 0 for one in listed) >= 9
    assert all(one["state"] in ("open", "closed") and one["problem"] is None for one in listed)
    assert listed[0]["first_lsn"] == f"{listed[0]['ledger']}:0"
    assert "│ Ledger │ State" in run("log", filled).stdout


def test_entries_are_decoded_with_names(run, filled):
    shown = run("log", filled, "--from", "1:0", "--rows").stdout
    assert "CreateTable t" in shown
    assert "Insert t 1 row" in shown
    assert '{"id": 3, "name": "name 3"}' in shown
    assert '{"id": 1, "name": "other"}' in shown
    assert '{"id": 2}' in shown  # the deleted one's key
    entries = [json.loads(line) for line in run("log", filled, "--from", "1:0", "--json").stdout.splitlines()]
    for before, after in itertools.pairwise(entries):
        assert after["predecessor"] == before["lsn"]
    kinds = [r["type"] for e in entries for t in e["transactions"] for r in t["records"]]
    assert kinds[0] == "CreateTable"
    assert kinds.count("Insert") == 5
    assert len(run("log", filled, "--from", "1:0", "--json", "--limit", 2).stdout.splitlines()) == 2
    last = entries[-1]["lsn"]
    assert run("log", filled, "--from", last, "--json").stdout.count('"lsn"') == 1


def test_rows_as_they_were_are_shown(run, filled):
    run("sql", filled, "-c", "ALTER TABLE t REPLICA IDENTITY FULL", "-c", "DELETE FROM t WHERE id = 3")
    lines = run("log", filled, "--from", "1:0", "--rows").stdout.splitlines()
    kinds = [line.split(maxsplit=2)[:2] for line in lines if line.startswith("    ") and line[4] != " "]
    assert kinds[-3:] == [["AlterTable", "t"], ["Before", "t"], ["Delete", "t"]]
    assert '      {"id": 3, "name": "name 3"}' in lines[-4:]


def test_following_shows_what_another_process_writes(filled, tmp_path):
    follow = command("log", filled, "--follow", "--rows", "--json")
    with (
        herdpy.connect(filled, autocommit=True) as connection,
        subprocess.Popen(follow, stdout=-1, stderr=-1, text=True, env=environment(tmp_path)) as process,
    ):
        first = json.loads(process.stdout.readline())  # it has begun
        assert first["transactions"]
        connection.execute("INSERT INTO t VALUES (77, 'fresh')")
        while "fresh" not in (line := process.stdout.readline()):
            assert line
        assert json.loads(line)["transactions"][0]["records"][0]["table"] == "t"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_wrong_positions(run, filled):
    assert "the log has no ledger 99" in run("log", filled, "--ledger", 99, code=1).stderr
    assert "not a log position" in run("log", filled, "--from", "x", code=2).stderr


def test_a_whole_database_is_found_whole(run, filled):
    out = json.loads(run("check", filled, "--json").stdout)
    assert out["ok"]
    assert out["findings"] == []
    assert (out["tables"], out["rows"], out["indexes"]) == (1, 4, 1)
    assert "All is well." in run("check", filled).stderr


def test_a_flipped_bit_in_a_ledger_is_found(run, filled):
    path = ledger_with(filled, b"name 3")
    data = bytearray(path.read_bytes())
    at = data.index(b"name 3")
    data[at] ^= 1
    path.write_bytes(data)
    out = json.loads(run("check", filled, "--json", code=1).stdout)
    (finding,) = [one for one in out["findings"] if one["part"] == "log"][:1]
    assert finding["file"] == str(path)
    assert finding["ledger"] >= 1
    assert finding["entry"] >= 0
    shown = run("check", filled, code=1)
    assert f"ledger {finding['ledger']}, entry {finding['entry']}, file {path}" in shown.stdout


def ledger_with(db, content):
    return next(path for path in sorted((db / "log").iterdir()) if content in path.read_bytes())


def damage(db, table, change):
    """Change the rows (or index entries) of one of LMDB's databases behind the store's back."""
    with lmdb.open(str(db / "store"), max_dbs=100, map_size=1 << 30) as env:
        handle = env.open_db(table)
        with env.begin(write=True) as txn:
            key, value = next(iter(txn.cursor(handle)))
            change(txn, handle, bytes(key), bytes(value))
        return key


def test_a_damaged_row_is_found(run, filled):
    def flip(txn, handle, key, value):
        txn.put(key, value[:-1] + bytes([value[-1] ^ 1]), db=handle)

    damage(filled, b"t1", flip)
    out = json.loads(run("check", filled, "--json", code=1).stdout)
    assert any(one.get("table") == "t" and "checksum" in one["message"] for one in out["findings"])
    assert any(one.get("index") == "by_name" and one.get("key") for one in out["findings"])


def test_a_missing_index_entry_is_found(run, filled):
    def remove(txn, handle, key, value):
        txn.delete(key, db=handle)

    damage(filled, b"i2", remove)
    out = json.loads(run("check", filled, "--json", code=1).stdout)
    assert [one["index"] for one in out["findings"]] == ["by_name"]
    assert "no entry for the row" in out["findings"][0]["message"]


def test_a_ruined_store_is_found(run, filled):
    (filled / "store" / "data.mdb").write_bytes(b"\0" * 8192)
    out = json.loads(run("check", filled, "--json", code=1).stdout)
    assert out["findings"][0]["file"].endswith("data.mdb")
    run("check", filled, "--log-only")
    assert "herdpy check" in run("info", filled, code=1).stderr


def test_info_and_checkpoint(run, filled):
    out = json.loads(run("info", filled, "--json").stdout)
    assert out["tables"] == [{"table": "t", "rows": 4, "columns": 2, "indexes": 1}]
    assert out["ledgers"] >= 1
    assert "│ t     │    4 │" in run("info", filled).stdout
    assert "deleted_ledgers" in json.loads(run("checkpoint", filled, "--json").stdout)
    with herdpy.connect(filled) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (4,)


@pytest.mark.parametrize("name", ["log", "check", "info", "checkpoint"])
def test_no_database_is_told(run, tmp_path, name):
    assert "there is no database" in run(name, tmp_path / "none", code=1).stderr
    assert not (tmp_path / "none").exists()


def test_version(run):
    assert json.loads(run("version", "--json").stdout)["herdpy"] == herdpy.__version__
