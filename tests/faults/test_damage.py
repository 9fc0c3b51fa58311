"""Torn and flipped ledger files, damaged stores: opened when that is provably right, else refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import herdpy
from herdpy_server.embedded import Database, opened
from herdpy_server.tablespace.directory import check_room
from herdpy_sql.errors import SqlError

ROWS = 50
NO_CHECKPOINTS = {"checkpoint_interval_s": 3600.0, "checkpoint_rows": 10**9}


def fill(database: Database, first: int, count: int) -> None:
    session = database.session()
    for i in range(first, first + count):
        database.run(session.execute("INSERT INTO t VALUES ($1, $2)", (i, f"row {i}")))


def ids(path: Path) -> list[int]:
    with opened(path) as database:
        session = database.session()
        rows = database.run(session.execute("SELECT id FROM t ORDER BY id")).rows
        return [row[0] for row in rows]  # type: ignore[misc]


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A directory as a crash leaves it: ROWS single-row commits in one open ledger, no checkpoint."""
    with opened(tmp_path / "live", **NO_CHECKPOINTS) as database:
        database.run(database.session().execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"))
        fill(database, 0, ROWS)
        shutil.copytree(tmp_path / "live", tmp_path / "crashed")
    return tmp_path / "crashed"


@pytest.fixture
def checkpointed(tmp_path: Path) -> Path:
    """A closed database whose older ledgers were trimmed."""
    path = tmp_path / "checkpointed"
    with opened(path) as database:
        database.run(database.session().execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"))
        fill(database, 0, ROWS)
        assert database.checkpoint(), "nothing was trimmed"
        fill(database, ROWS, ROWS)
    return path


def last_ledger(path: Path) -> Path:
    return sorted(path.glob("log/*.ledger"))[-1]


def end_of_entries(ledger: Path) -> int:
    return len(ledger.read_bytes().rstrip(b"\0"))


def test_a_crash_without_damage_loses_nothing(crashed: Path) -> None:
    assert ids(crashed) == list(range(ROWS))


def test_a_torn_last_write_is_cut_off_and_reported(crashed: Path) -> None:
    ledger = last_ledger(crashed)
    size = end_of_entries(ledger)
    with open(ledger, "r+b") as file:
        file.truncate(size - 7)
    with opened(crashed) as database:
        assert len(database.torn) == 1
        assert ledger.name in str(database.torn[0])
    assert ids(crashed) == list(range(ROWS - 1))


@pytest.mark.parametrize("where", [0.2, 0.5, 0.8])
def test_a_flipped_bit_in_a_ledger_is_refused_with_its_place(crashed: Path, where: float) -> None:
    ledger = last_ledger(crashed)
    data = bytearray(ledger.read_bytes())
    first = data.index(b"HPEN")
    data[first + int((end_of_entries(ledger) - first) * where)] ^= 0x10
    ledger.write_bytes(data)
    with pytest.raises(SqlError) as caught:
        Database.open(crashed)
    assert caught.value.sqlstate == "XX001"
    assert ledger.name in str(caught.value)
    assert "ledger" in caught.value.message
    assert caught.value.hint


def test_a_refused_directory_is_left_as_it_was(crashed: Path) -> None:
    ledger = last_ledger(crashed)
    good = ledger.read_bytes()
    bad = bytearray(good)
    bad[end_of_entries(ledger) // 2] ^= 1
    ledger.write_bytes(bad)
    with pytest.raises(SqlError):
        Database.open(crashed)
    ledger.write_bytes(good)
    assert ids(crashed) == list(range(ROWS))


def garble(path: Path) -> None:
    data = path / "store" / "data.mdb"
    content = bytearray(data.read_bytes())
    content[: 2 * 4096] = b"\xa5" * (2 * 4096)
    data.write_bytes(content)


@pytest.mark.parametrize("damage", ["garbled", "truncated", "missing"])
def test_a_damaged_store_is_rebuilt_from_a_whole_log(crashed: Path, damage: str) -> None:
    assert ids(crashed) == list(range(ROWS))  # closes cleanly: the store has everything
    data = crashed / "store" / "data.mdb"
    if damage == "garbled":
        garble(crashed)
    elif damage == "truncated":
        data.write_bytes(data.read_bytes()[:5000])
    else:
        data.unlink()
    with opened(crashed) as database:
        assert (database.rebuilt is not None) == (damage != "missing")
        assert list(database.store.check()) == []
    assert ids(crashed) == list(range(ROWS))


@pytest.mark.parametrize("damage", ["garbled", "missing"])
def test_a_damaged_store_with_a_trimmed_log_is_refused(checkpointed: Path, damage: str) -> None:
    if damage == "garbled":
        garble(checkpointed)
    else:
        (checkpointed / "store" / "data.mdb").unlink()
    with pytest.raises(SqlError) as caught:
        Database.open(checkpointed)
    assert caught.value.sqlstate == "XX001"
    assert "copy" in (caught.value.hint or "")


def test_a_log_that_lost_a_ledger_is_refused(checkpointed: Path) -> None:
    last_ledger(checkpointed).unlink()
    with pytest.raises(SqlError) as caught:
        Database.open(checkpointed)
    assert caught.value.sqlstate == "XX001"


def test_the_root_of_a_fresh_file_system_is_a_place_for_a_database(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    check_room(tmp_path)  # of a copy of another replica
    with pytest.raises(herdpy.OperationalError) as caught:
        herdpy.connect(tmp_path, create=False)
    assert caught.value.sqlstate == "08001"
    for _ in range(2):
        with herdpy.connect(tmp_path, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS t (a integer)")


def test_a_directory_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(SqlError) as caught:
        Database.open(tmp_path)
    assert caught.value.sqlstate == "55000"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["thesis.txt"]


def test_a_newer_format_is_refused(checkpointed: Path) -> None:
    marker = checkpointed / "HERDPY"
    marker.write_text(marker.read_text().replace('"format": 2', '"format": 99'))
    with pytest.raises(SqlError) as caught:
        Database.open(checkpointed)
    assert caught.value.sqlstate == "0A000"
