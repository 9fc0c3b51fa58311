"""A directory made of a snapshot: it opens, its positions go on growing, and half a one is made again."""

from __future__ import annotations

from pathlib import Path

import pytest

import herdpy
from herdpy.log import inspect
from herdpy.log.lsn import LSN
from herdpy_server.store import Store
from herdpy_server.tablespace.directory import check_room, seed
from herdpy_sql.errors import SqlError


@pytest.fixture
def snapshot(tmp_path: Path) -> tuple[Path, LSN]:
    """A copy of a store with 20 rows, and its position."""
    with herdpy.connect(f"herdpy://{tmp_path}/origin", autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY)").close()
        for number in range(20):
            connection.execute("INSERT INTO t VALUES (%s)", (number,)).close()
    store = Store.open(tmp_path / "origin" / "store")
    lsn = store.copy(tmp_path / "copy")
    store.close()
    return tmp_path / "copy" / "data.mdb", lsn


def add(directory: Path, low: int, high: int) -> int:
    """Insert rows, each in a transaction of its own; how many there are."""
    with herdpy.connect(f"herdpy://{directory}", autocommit=True, create=False) as connection:
        for number in range(low, high):
            connection.execute("INSERT INTO t VALUES (%s)", (number,)).close()
        count: int = connection.execute("SELECT count(*) FROM t").fetchone()[0]
    return count


def position(directory: Path) -> LSN:
    """What the store of a closed database has."""
    store = Store.open(directory / "store", read_only=True)
    durable = store.durable
    store.close()
    return durable


def test_positions_go_on_growing(snapshot, tmp_path):
    data, lsn = snapshot
    made = tmp_path / "made"
    seed(made, data, lsn)
    assert position(made) == lsn
    assert add(made, 20, 25) == 25
    first = position(made)
    assert first > lsn
    assert min(one.info.ledger_id for one in inspect.ledgers(str(made / "log"))) > lsn.ledger_id
    assert add(made, 25, 40) == 40
    assert position(made) > first
    assert data.exists()


def test_what_a_crash_left_is_made_again(snapshot, tmp_path):
    data, lsn = snapshot
    made = tmp_path / "made"
    seed(made, data, lsn)
    (made / "HERDPY").unlink()  # as if it had not come so far
    (made / "store" / "data.mdb").unlink()
    (made / "store" / "data.mdb").write_bytes(b"half")
    seed(made, data, lsn)
    assert add(made, 20, 21) == 21


def test_nothing_is_overwritten(snapshot, tmp_path):
    data, lsn = snapshot
    made = tmp_path / "made"
    check_room(made)
    seed(made, data, lsn)
    with pytest.raises(SqlError, match="there is a database"):
        check_room(made)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").touch()
    with pytest.raises(SqlError, match="not empty"):
        check_room(tmp_path / "mine")
    check_room(tmp_path / "mine", frozenset({"thesis"}))
