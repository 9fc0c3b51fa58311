"""A replica's directory: a quarantine is known after a crash, and one store takes another's place whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from herdpy.log.lsn import START
from herdpy_server.cluster.layout import Address
from herdpy_server.replica.files import mark, marked, put_in_place, unmark
from herdpy_server.replica.seeding import Credentials
from herdpy_server.store import Store


def store_with_a_table(path: Path) -> str:
    """A new store; its uuid."""
    store = Store.open(path)
    uuid = store.uuid
    store.close()
    return uuid


def test_a_quarantine_is_known_until_there_is_another_store(tmp_path: Path):
    replica = tmp_path / "herdpy"
    assert marked(replica) is None
    mark(replica, "it differs")
    mark(replica, "it differs from the others")
    assert marked(replica) == "it differs from the others"
    unmark(replica)
    assert marked(replica) is None


def test_a_seed_takes_the_place_of_the_store(tmp_path: Path):
    old = store_with_a_table(tmp_path / "store")
    new = store_with_a_table(tmp_path / "seed")
    (tmp_path / "seed" / "FROM").write_text("{}")
    put_in_place(tmp_path / "seed" / "data.mdb", tmp_path / "store")
    assert not (tmp_path / "seed").exists()
    store = Store.open(tmp_path / "store")
    assert store.uuid == new != old
    store.close()


def test_a_crash_between_the_old_and_the_new_leaves_an_empty_store(tmp_path: Path):
    old = store_with_a_table(tmp_path / "store")
    with pytest.raises(FileNotFoundError):
        put_in_place(tmp_path / "seed" / "data.mdb", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    assert store.uuid != old
    assert store.durable == START
    store.close()


def test_a_password_is_read_each_time_and_not_shown(tmp_path: Path):
    file = tmp_path / "password"
    credentials = Credentials("copier", file)
    with pytest.raises(FileNotFoundError):
        credentials.place(Address("127.0.0.1", 1))
    for password in ("first", "second"):
        file.write_text(f"{password}\r\na note\n")
        place = credentials.place(Address("127.0.0.1", 1))
        assert place.password == password
        assert password not in repr(place)
        assert password not in repr(credentials)
