"""Reading the log of a directory again and again: each time from where an earlier reader was."""

from __future__ import annotations

import pytest

import herdpy
from herdpy.log import LSN, START, CorruptLedgerError
from herdpy.log import detached as ledgers
from herdpy.log.file_ledger import BLOCK_BYTES, ledger_path
from herdpy_spark.log import LogAddress, entries


@pytest.fixture
def written(tmp_path):
    """A log of 101 entries in one open ledger, and a function that writes one more."""
    with herdpy.connect(str(tmp_path), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        for number in range(100):
            connection.execute(f"INSERT INTO t VALUES ({number})")
    ledgers._file_places.clear()
    yield LogAddress.of_database(tmp_path)
    ledgers._file_places.clear()


def read(address, after, upto):
    return [(entry.lsn, entry.crc) for entry in entries(address, after, upto)]


def test_what_is_read_is_the_same_from_wherever(written):
    whole = read(written, START, LSN(1, 100))
    assert [lsn.entry_id for lsn, _ in whole] == list(range(101))
    for after, upto in ((90, 95), (95, 100), (94, 96), (20, 100), (99, 100), (100, 100), (2, 98)):
        assert read(written, LSN(1, after), LSN(1, upto)) == whole[after + 1 : upto + 1]


def test_what_was_read_once_is_not_read_again(written):
    whole = read(written, START, LSN(1, 60))
    path = ledger_path(written.directory, 1)
    with open(path, "r+b") as file:
        file.seek(BLOCK_BYTES + 70)
        byte = file.read(1)
        file.seek(BLOCK_BYTES + 70)
        file.write(bytes([byte[0] ^ 1]))
    assert len(read(written, LSN(1, 60), LSN(1, 100))) == 40
    ledgers._file_places.clear()
    with pytest.raises(CorruptLedgerError):
        read(written, LSN(1, 60), LSN(1, 100))
    assert len(whole) == 61


def test_places_are_of_one_log(written, tmp_path_factory):
    read(written, START, LSN(1, 60))
    other = tmp_path_factory.mktemp("other")
    with herdpy.connect(str(other), autocommit=True) as connection:
        connection.execute("CREATE TABLE u (id INT PRIMARY KEY, v TEXT)")
        for number in range(100):
            connection.execute(f"INSERT INTO u VALUES ({number}, 'longer rows')")
    assert len(read(LogAddress.of_database(other), LSN(1, 60), LSN(1, 100))) == 40
