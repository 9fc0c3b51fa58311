"""A cluster as tests of tablespaces use it: sessions by node, rows as dicts, waiting for what is to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from herdpy.bookkeeper import BookKeeper
from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from herdpy.testing.zookeeper import ClusterZnodes

PATIENCE_S = 90.0


class World:
    """The servers of a cluster by name, in ``ports`` with where they listen."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.ports = {server.id: server.sql_port for server in cluster.status().servers}

    def url(self, database: str = "herdpy") -> str:
        """For commands and the driver."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        return f"herdpy://{hosts}/{database}"

    def where(self, *nodes: str, attrs: str = "any") -> dict[str, str]:
        """libpq's parameters for these nodes, or all."""
        ports = [self.ports[node] for node in nodes] or list(self.ports.values())
        return {
            "host": ",".join(["127.0.0.1"] * len(ports)),
            "port": ",".join(map(str, ports)),
            "target_session_attrs": attrs,
        }

    def connect(
        self, *nodes: str, database: str = "herdpy", attrs: str = "any", user: str = "ann"
    ) -> psycopg.Connection[Any]:
        """A session in autocommit with the first of the nodes that takes it."""
        return psycopg.connect(
            **self.where(*nodes, attrs=attrs), dbname=database, user=user, autocommit=True, connect_timeout=5
        )

    def leader_session(self, database: str) -> psycopg.Connection[Any]:
        """A session with the leader, found as libpq finds it, once there is one."""
        found: list[psycopg.Connection[Any]] = []

        def connected() -> bool:
            try:
                found.append(self.connect(database=database, attrs="read-write"))
            except psycopg.OperationalError:
                return False
            return True

        assert await_until(connected, PATIENCE_S), f"nobody leads {database}"
        return found[0]

    @contextmanager
    def role(self, name: str, node: str) -> Iterator[None]:
        """A role, for the length of the block: made where the default tablespace is led, known to a node."""
        with self.leader_session("herdpy") as conn:
            conn.execute(f"CREATE ROLE {name} LOGIN".encode())
        try:
            known = f"SELECT rolname FROM pg_roles WHERE rolname = '{name}'"
            self.await_rows(known, len, node)
            yield
        finally:
            with self.leader_session("herdpy") as conn:
                conn.execute(f"DROP ROLE {name}".encode())

    def run(self, statement: str, *nodes: str, database: str = "herdpy") -> list[str]:
        """Run a statement; what the server remarked, as "SEVERITY: text"."""
        remarks: list[str] = []
        with self.connect(*nodes, database=database) as conn:
            conn.add_notice_handler(lambda told: remarks.append(f"{told.severity}: {told.message_primary}"))
            conn.execute(statement.encode())
        return remarks

    def rows(self, query: str, *nodes: str, database: str = "herdpy") -> list[dict[str, Any]]:
        """The rows of a query."""
        with self.connect(*nodes, database=database) as conn:
            cursor = conn.execute(query.encode())
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def await_rows(
        self,
        query: str,
        condition: Callable[[list[dict[str, Any]]], object],
        *nodes: str,
        database: str = "herdpy",
    ) -> list[dict[str, Any]]:
        """The rows of a query once they are as wanted."""
        found: list[list[dict[str, Any]]] = []

        def fits() -> bool:
            try:
                found.append(self.rows(query, *nodes, database=database))
            except psycopg.OperationalError:
                return False
            return bool(condition(found[-1]))

        assert await_until(fits, PATIENCE_S), found[-1:]
        return found[-1]

    def replicas(self, tablespace: str) -> dict[str, str]:
        """State by node."""
        rows = self.rows(f"SELECT node, state FROM herdpy.replicas WHERE tablespace = '{tablespace}'")
        return {row["node"]: row["state"] for row in rows}

    def await_states(self, tablespace: str, states: dict[str, str]) -> None:
        """Return when the replicas of a tablespace are these, in these states."""
        self.await_rows(
            f"SELECT node, state FROM herdpy.replicas WHERE tablespace = '{tablespace}'",
            lambda rows: {row["node"]: row["state"] for row in rows} == states,
        )

    def leader(self, tablespace: str) -> str:
        """Who leads, once somebody does."""
        query = f"SELECT node FROM herdpy.replicas WHERE tablespace = '{tablespace}' AND state = 'leading'"
        return str(self.await_rows(query, len)[0]["node"])

    def await_nodes(self) -> None:
        """Return when all servers are there."""
        self.await_rows("SELECT node FROM herdpy.nodes", lambda rows: len(rows) == len(self.ports))

    def spread(self, tablespace: str) -> None:
        """Have a replica of a tablespace on every server."""
        with self.leader_session(tablespace) as conn:
            conn.execute(f"ALTER TABLESPACE {tablespace} SET (replicas = '{','.join(self.ports)}')".encode())
        count = len(self.ports)
        self.await_rows(
            f"SELECT state FROM herdpy.replicas WHERE tablespace = '{tablespace}'",
            lambda rows: sorted(row["state"] for row in rows) == ["following"] * (count - 1) + ["leading"],
        )

    def restart(self, node: str) -> None:
        """Start a server that was killed, and wait until all are there."""
        self.cluster.start(node)
        self.await_nodes()

    # What is left of tablespaces.

    def directories(self, tablespace: str) -> list[Path]:
        """Those of its replicas, on all servers."""
        return sorted(self.cluster.directory.rglob(f"tablespaces/{tablespace}"))

    def znodes(self, tablespace: str) -> bool:
        """Whether it has any."""
        with ClusterZnodes(self.cluster.zookeeper) as znodes:
            return znodes.read(f"/herdpy/tablespaces/{tablespace}") is not None

    def ledgers(self, tablespace: str) -> list[int]:
        """Ids of the ledgers that say that they are its, listed or not."""

        async def find() -> list[int]:
            async with BookKeeper(self.cluster.bookkeeper_uri) as bk:
                found = []
                for ledger_id in await bk.list_ledgers():
                    custom = (await bk.ledger_metadata(ledger_id)).custom_metadata
                    if custom.get("tablespace") == tablespace.encode():
                        found.append(ledger_id)
                return found

        return asyncio.run(find())
