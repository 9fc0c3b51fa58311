"""Roles as a part of the replicated state: where they come from, and what of them is kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.replica.node import ClusterNode
from herdpy_server.replica.roles import LoggedRoles
from herdpy_server.roles.passwords import Verifier
from herdpy_server.roles.role import Role, RoleFile, RoleStore, created, dropped, replaced
from herdpy_server.store import Store
from herdpy_server.tablespace import Directory
from herdpy_sql.errors import SqlError

ANN = Role("ann", verifier=Verifier.of("pass").text())


class FakeNode:
    """A node with a database in the place of its replica of the default tablespace."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cluster = SimpleNamespace(tablespace="herdpy")
        self.host: Any = None
        self.replicas: dict[str, Any] = {}

    def has(self, database: Database | None) -> None:
        """Its replica is this one; None while it is opened."""
        self.host = object()
        opened = None if database is None else SimpleNamespace(store=database.tablespace.store)
        self.replicas["herdpy"] = SimpleNamespace(opened=opened)

    def roles(self) -> RoleStore:
        return RoleStore(LoggedRoles(cast(ClusterNode, self)))


def change(database: Database, roles: RoleStore, make: Any) -> None:
    session = database.session()  # not within the turn, which is a mutex here
    for replica in roles._place._node.replicas.values():
        replica.session = lambda: session  # type: ignore[method-assign]
    database.run(roles.change("CREATE ROLE", make))


def names(roles: Any) -> list[str]:
    return [role.name for role in roles]


def test_they_are_logged_and_kept(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    with opened(tmp_path / "db") as database:
        node.has(database)
        roles = node.roles()
        for name in ("bob", "ann", "eve"):
            change(database, roles, created(Role(name)))
        change(database, roles, replaced("ann", ANN))
        change(database, roles, replaced("eve", Role("zoe")))
        change(database, roles, dropped(frozenset({"bob", "nobody"})))
        assert names(roles) == ["ann", "zoe"]
        assert roles.get("ann") == ANN
        assert (roles.get("bob"), roles.verifier("bob"), roles.verifier("zoe")) == (None, None, None)
        found = roles.verifier("ann")
        assert found is not None
        assert found.fits("pass")
        for wrong, state in ((created(ANN), "42710"), (replaced("x", ANN), "42704")):
            with pytest.raises(SqlError) as caught:
                change(database, roles, wrong)
            assert caught.value.sqlstate == state
        database.run(database.session().execute("CREATE TABLE t (id INT PRIMARY KEY)"))
        assert names(roles) == ["ann", "zoe"]
        database.abandon()  # a crash: they are in the log alone
    for turn in range(2):
        with opened(tmp_path / "db") as database:  # and then in the store
            node.has(database)
            assert names(node.roles()) == ["ann", "zoe"], turn
            database.checkpoint()
    copy = Store.open(Directory(tmp_path / "db").store)
    copy.copy(tmp_path / "copy")
    copy.close()
    taken = Store.open(tmp_path / "copy")
    assert sorted(taken.catalog.roles or ()) == ["ann", "zoe"]
    taken.close()
    assert not (tmp_path / "users.json").exists()


def test_a_file_of_roles_counts_until_there_are_some_in_the_log(tmp_path: Path) -> None:
    """As nodes had them before; the first change takes those of the leader over."""
    RoleFile(tmp_path).change_now(created(ANN))
    node = FakeNode(tmp_path)
    with opened(tmp_path / "db") as database:
        node.has(database)
        roles = node.roles()
        assert roles.get("ann") == ANN
        change(database, roles, dropped(frozenset({"ann"})))
        assert names(roles) == []
        change(database, roles, created(Role("bob")))
        assert names(node.roles()) == ["bob"]


def test_until_they_are_known_passwords_are_not_judged(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    roles = node.roles()

    def refused() -> str:
        with pytest.raises(SqlError) as caught:
            roles.verifier("ann")
        return caught.value.sqlstate

    assert refused() == "57P03"  # it has not joined
    node.has(None)
    assert refused() == "57P03"
    with opened(tmp_path / "db") as database:
        node.has(database)
        change(database, roles, created(ANN))
        assert roles.verifier("ann") is not None
        node.has(None)  # it is seeded anew: what was known last counts
        assert roles.verifier("ann") is not None


def test_a_node_without_the_tablespace_goes_by_its_file(tmp_path: Path) -> None:
    RoleFile(tmp_path).change_now(created(ANN))
    node = FakeNode(tmp_path)
    node.host = object()
    roles = node.roles()
    assert roles.verifier("ann") is not None
    with opened(tmp_path / "db") as database:
        with pytest.raises(SqlError) as caught:
            change(database, roles, created(Role("bob")))
        assert caught.value.sqlstate == "25006"


def test_a_nodes_directory_may_have_a_file_of_roles(tmp_path: Path) -> None:
    RoleFile(tmp_path).change_now(created(ANN))
    (tmp_path / "NODE").write_text("{}")
    Directory(tmp_path).lock(create=False).release()
