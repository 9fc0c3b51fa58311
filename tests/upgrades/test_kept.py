"""What version 0.1.0 wrote (tests/upgrades/data) is read by this one; what a newer one wrote is refused."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from zlib import crc32

import lmdb
import pytest
from google_crc32c import value as crc32c
from typer.testing import CliRunner

import herdpy
from herdpy.cli.app import app
from herdpy.formats import NEWEST_LEVEL
from herdpy.log.entry import encode_entry, encode_part
from herdpy.log.ledger_list import FileLedgerList
from herdpy_server.embedded import Database
from herdpy_server.tablespace.directory import Directory
from herdpy_sql.errors import SqlError
from tests.support.server_process import RunningServer
from tests.upgrades.kept import answers
from tests.upgrades.release import ROOT, VERSION, run

KEPT = ROOT / f"tests/upgrades/data/kept-{VERSION}.tar.xz"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A copy of what the release left."""
    with tarfile.open(KEPT) as files:
        files.extractall(tmp_path / "kept", filter="data")
    return tmp_path / "kept"


def _said(kept: Path) -> list[list[list[str]]]:
    document = json.loads((kept / "answers.json").read_text())
    assert document["version"] == VERSION
    answers: list[list[list[str]]] = document["answers"]
    return answers


def test_a_directory_of_the_release_opens_with_all_that_was_in_it(kept: Path) -> None:
    for _ in range(2):  # with what only the log had, and from the checkpoint after it
        with herdpy.connect(kept / "shop", autocommit=True) as connection:
            assert answers(connection) == _said(kept)
    assert Directory(kept / "shop").level() == 1, "the way back is open until somebody closes it"
    with herdpy.connect(kept / "shop", autocommit=True) as connection:
        connection.execute("INSERT INTO item (name, price) VALUES ('new', 1)")
        connection.execute("DROP TABLE line")
        assert connection.execute("SELECT twice FROM item WHERE name = 'new'").fetchone() == (2,)


def test_a_backup_of_the_release_is_restored(kept: Path) -> None:
    done = run(None, "-m", "herdpy.cli", "restore", kept / "repository", kept / "again")
    assert done.returncode == 0, done.stderr
    with herdpy.connect(kept / "again", autocommit=True) as connection:
        assert answers(connection) == _said(kept)
    assert Directory(kept / "again").level() == NEWEST_LEVEL


def test_a_server_takes_the_directory_over_with_roles_and_rights_and_finishes(kept: Path) -> None:
    with closing(RunningServer(kept / "shop").ready()) as server:
        with server.connect(user="ann", password="a long one") as ann:
            assert ann.execute("SELECT count(*) FROM item").fetchone() == (300,)
            with pytest.raises(Exception, match="permission denied"):
                ann.execute("DELETE FROM item")
        url = f"grpc://127.0.0.1:{server.grpc_port}"
        shown = run(None, "-m", "herdpy.cli", "admin", "upgrade", url, "--json")
        assert json.loads(shown.stdout) == {
            "level": 1,
            "newest_level": NEWEST_LEVEL,
            "servers": [{"node": "", "version": herdpy.__version__, "level": NEWEST_LEVEL}],
            "hindrance": "",
        }
        for _ in range(2):
            finished = run(None, "-m", "herdpy.cli", "admin", "upgrade", url, "--finish")
            assert finished.returncode == 0, finished.stderr
    assert Directory(kept / "shop").level() == NEWEST_LEVEL
    with herdpy.connect(kept / "shop", autocommit=True) as connection:
        assert answers(connection) == _said(kept)


# What is newer.


def _newer_marker(place: Path) -> None:
    marker = place / "HERDPY"
    marker.write_text(marker.read_text().replace(f'"format": {NEWEST_LEVEL}', '"format": 99'))


def _newer_roles(place: Path) -> None:
    (place / "users.json").write_text('{"format": 2, "roles": []}')


def _newer_store(place: Path) -> None:
    with lmdb.open(str(place / "store"), max_dbs=64, subdir=True) as env:
        meta = env.open_db(b"meta", create=False)
        with env.begin(write=True) as txn:
            txn.put(b"format", b"2", db=meta)


def _newer_list(place: Path) -> None:
    path = place / "log" / "ledgers"
    path.write_bytes(path.read_bytes().replace(b"herdpy-ledger-list 1 ", b"herdpy-ledger-list 2 ", 1))


def _open_ledger(place: Path) -> Path:
    state = FileLedgerList(str(place / "log")).read()
    assert state is not None
    return place / "log" / f"{state.ledgers[-1].ledger_id:010}.ledger"


def _newer_ledger(place: Path) -> None:
    path = _open_ledger(place)
    data = bytearray(path.read_bytes())
    data[8:10] = (2).to_bytes(2, "big")
    data[68:72] = crc32c(bytes(data[:68])).to_bytes(4, "big")
    path.write_bytes(data)


def _newer_entry(place: Path) -> None:
    """The last entry of an open ledger: where what a crash cut short is dropped."""
    path = _open_ledger(place)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"HPEN")
    data[at + 4] = 2
    data[at + 60 : at + 64] = crc32c(bytes(data[at : at + 60])).to_bytes(4, "big")
    path.write_bytes(data)


def _newer_record(place: Path) -> None:
    """The last entry, with a record of a type that is not known."""
    path = _open_ledger(place)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"HPEN")
    numbers = [int.from_bytes(data[at + n : at + n + 8], "big", signed=True) for n in (8, 16, 24, 32, 40)]
    crc = int.from_bytes(data[at + 56 : at + 60], "big")
    record = bytes([99, 1]) + (0).to_bytes(4, "big")
    transaction = (1).to_bytes(8, "big") + b"\0" + (1).to_bytes(4, "big") + record
    entry, _crc = encode_entry(
        (numbers[0], numbers[1]), (numbers[2], numbers[3]), crc, numbers[4], [encode_part(transaction)]
    )  # type: ignore[arg-type]
    written = entry + len(entry).to_bytes(4, "big") + b"DONE"
    data[at : at + len(data)] = written.ljust(len(data) - at, b"\0")
    path.write_bytes(data)


NEWER = {
    "marker": _newer_marker,
    "store": _newer_store,
    "ledger list": _newer_list,
    "ledger file": _newer_ledger,
    "entry": _newer_entry,
    "record": _newer_record,
}


OPENS_THE_LOG = {"store", "record"}
"""What is found once the log is open: its open ledger was closed by then, with all its entries."""


def _contents(place: Path, opened: bool) -> dict[str, int]:
    """A checksum of every file but those that say how it was left; of ledgers, the entries."""
    found = {}
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.name not in ("LOCK", "lock.mdb", "closed", "opened"):
            data = path.read_bytes()
            if opened and path.suffix == ".ledger":
                data = data[4096:].rstrip(b"\0")
            if not opened or path.name != "ledgers":
                found[str(path.relative_to(place))] = crc32(data)
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that a process has left without closing it."""
    place = tmp_path_factory.mktemp("made") / "d"
    done = run(None, "-c", MAKE_AND_DIE, place)
    assert done.returncode == 0, done.stderr
    return place


@pytest.mark.parametrize("newer", NEWER)
def test_what_a_newer_version_wrote_is_refused_and_stays_as_it_is(
    made: Path, tmp_path: Path, newer: str
) -> None:
    place = tmp_path / "made"
    shutil.copytree(made, place)
    change: Callable[[Path], None] = NEWER[newer]
    change(place)
    before = _contents(place, newer in OPENS_THE_LOG)
    for _ in range(2):
        with pytest.raises(SqlError) as caught:
            Database.open(place)
        assert caught.value.sqlstate == "0A000", str(caught.value)
        assert "docs/upgrades.md" in (caught.value.hint or "")
        assert _contents(place, newer in OPENS_THE_LOG) == before
    for command in ("check", "log", "info"):
        shown = CliRunner().invoke(app, [command, str(place)])
        assert shown.exception is None or isinstance(shown.exception, SystemExit), shown.exception
        if newer != "marker" and command == "check":
            assert shown.exit_code == 1, shown.stdout


def test_a_newer_file_of_roles_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "made"
    herdpy.connect(place).close()
    _newer_roles(place)
    with closing(RunningServer(place)) as server:
        assert server.wait() == 1
        assert server.wait_for("cannot start")["sqlstate"] == "0A000"


MAKE_AND_DIE = """
import os, sys, herdpy
connection = herdpy.connect(sys.argv[1], autocommit=True)
connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
connection.execute("CHECKPOINT")
for number in range(3):
    connection.execute("INSERT INTO t VALUES (%s)", (number,))
os._exit(0)
"""
