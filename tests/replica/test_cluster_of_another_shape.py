"""All of a cluster comes into a new one with fewer servers, roles too, and grows there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

import herdpy
from herdpy.cli.app import app
from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.replica.replicas import PATIENCE_S, await_leader, followers, replica_status, run, server

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]

ROLES = "SELECT rolname FROM pg_roles WHERE rolname = 'clerk'"
RIGHTS = (
    "SELECT has_table_privilege('clerk', 'item', 'SELECT'), has_table_privilege('clerk', 'item', 'DELETE')"
)


def command(*arguments: object) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, f"{done.stdout}\n{done.stderr}\n{done.exception!r}"
    return done.stdout


def of_tablespace(cluster: LocalCluster, name: str) -> str:
    """The URL of a tablespace."""
    return cluster.url.rpartition("/")[0] + f"/{name}"


def answer(cluster: LocalCluster, node: str, tablespace: str, text: str) -> Any:
    port = server(cluster, node).sql_port
    address = f"host=127.0.0.1 port={port} dbname={tablespace} user=herdpy"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET herdpy.read_level = 'any'")
        return connection.execute(text.encode()).fetchall()


def await_answer(expected: Any, asked: Callable[[], Any]) -> None:
    """Wait until it is answered so."""
    found: list[Any] = []

    def fits() -> bool:
        try:
            found[:] = [asked()]
        except psycopg.Error as error:
            found[:] = [error]
        return found == [expected]

    assert await_until(fits, PATIENCE_S), found


def test_a_cluster_is_restored_into_a_smaller_one_that_grows(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    with LocalCluster(tmp_path / "a", servers=2, bookies=2) as old:
        leader = await_leader(old)
        run(
            old,
            leader,
            "CREATE TABLE item (id serial PRIMARY KEY, v text)",
            "INSERT INTO item (v) SELECT 'v' || g FROM generate_series(1, 2000) g",
            "CREATE ROLE clerk",
            "GRANT SELECT ON item TO clerk",
            "CREATE TABLESPACE sales WITH (retention = '77s')",
        )
        with herdpy.connect(of_tablespace(old, "sales"), autocommit=True) as connection:
            connection.execute("CREATE TABLE item AS SELECT 'of sales' AS v")
        command("backup", old.url, "--all", "--to", repository)
        run(old, leader, "INSERT INTO item (v) VALUES ('after the backup')")
    with LocalCluster(tmp_path / "b", servers=1, bookies=1) as new:
        (node,) = [one.id for one in new.status().servers]
        await_leader(new)
        run(new, node, "CREATE TABLESPACE spare")
        with herdpy.connect(of_tablespace(new, "spare"), autocommit=True) as connection:
            connection.execute("DROP TABLESPACE herdpy WITH (FORCE)")
        replica = tmp_path / "b" / node / "tablespaces" / "herdpy"
        assert await_until(lambda: not replica.exists(), PATIENCE_S)
        new.stop(node)  # it need not run
        url = f"herdpy+zk://{new.zookeeper}/herdpy"
        said = command("restore", repository, url, "--node", tmp_path / "b" / node)
        assert said.count("no server leads it yet") == 2
        new.start(node)
        await_leader(new)
        check(new, node)
        assert answer(new, node, "sales", "SELECT v FROM item") == [("of sales",)]
        run(new, node, "INSERT INTO item (v) VALUES ('new')")
    with LocalCluster(tmp_path / "b", servers=3, bookies=3) as grown:
        leader = await_leader(grown)
        others: list[str] = []  # the backup's tablespace has two replicas

        def has_follower() -> bool:
            others[:] = [one for one in followers(grown, leader) if replica_status(grown, one)]
            return len(others) == 1

        assert await_until(has_follower, PATIENCE_S)
        await_count(grown, others[0], 2001)
        check(grown, others[0])
        assert replica_status(grown, leader)["role"] == "leader"


def await_count(cluster: LocalCluster, node: str, rows: int) -> None:
    await_answer([(rows,)], lambda: answer(cluster, node, "herdpy", "SELECT count(*) FROM item"))


def check(cluster: LocalCluster, node: str) -> None:
    """Rows up to the backup, roles and rights."""
    counted = "SELECT count(*) FROM item WHERE v <> 'new'"
    await_answer([(2000,)], lambda: answer(cluster, node, "herdpy", counted))
    assert answer(cluster, node, "herdpy", ROLES) == [("clerk",)]
    assert answer(cluster, node, "herdpy", RIGHTS) == [(True, False)]
