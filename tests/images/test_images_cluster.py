"""docker/compose.cluster.yaml, brought up in the order that it says, harmed, and asked what it has lost.

One container of each kind is killed while clients write, and is back afterwards; what was acknowledged is
there once, and what is there was written. Ports are free ones: the file's own may be taken.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import yaml

from herdpy.testing.process import PortReservation, await_until
from tests.images.engine import COMPOSE, PATIENCE_S, ROOT, await_green, missing
from tests.tablespaces.test_tablespaces_moving import Writer

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
PASSWORD = "a long one"
SERVERS = ("server-1", "server-2", "server-3")
LOCAL = "herdpy://admin@127.0.0.1/herdpy"
WRITERS = 3
SQL_PORT = 5432


class ComposedCluster:
    """The services of the file, with ports of their own on this machine."""

    def __init__(self, images, directory):
        self.images = images
        self.project = f"herdpy{secrets.token_hex(3)}"
        self.services = yaml.safe_load(COMPOSE.read_text())["services"]
        self.ports = {}
        override = directory / "ports.yaml"
        override.write_text(self._override())
        self._files = ["--file", str(COMPOSE), "--file", str(override)]

    def _override(self):
        lines = ["services:"]
        for name in SERVERS:
            with closing(PortReservation()) as reserved:
                self.ports[name] = reserved.port
            published = f'"127.0.0.1:{self.ports[name]}:{SQL_PORT}"'
            lines += [f"  {name}:", "    ports: !override", f"      - {published}"]
        return "\n".join(lines) + "\n"

    def compose(self, *arguments):
        """One command of podman-compose."""
        program = str(Path(sys.executable).with_name("podman-compose"))
        done = subprocess.run(
            [program, "--project-name", self.project, *self._files, *arguments],
            env=self.images.environment, capture_output=True, text=True, check=False, timeout=600, cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"

    def container(self, service):
        """The name of a service's container."""
        return f"{self.project}_{service}_1"

    def up(self):
        """Start each service when what it depends on is as the file demands."""
        started = set()
        while len(started) < len(self.services):
            ready = [
                name
                for name, service in self.services.items()
                if name not in started and service.get("depends_on", {}).keys() <= started
            ]
            self.compose("up", "--detach", "--no-deps", "--no-build", *ready)
            for name in ready:
                self._await(name)
            started.update(ready)

    def _await(self, name):
        if name == "bookkeeper-metadata":  # ends when it is done
            code = self.images.out("wait", self.container(name))
            assert code == "0", self.images.logs(self.container(name))
        else:
            self.images.await_healthy(self.container(name))

    def kill(self, service):
        """SIGKILL, and wait until its process is gone."""
        container = self.container(service)
        before = self.images.state(container)["State"]["Pid"]
        self.images.run("kill", "--signal", "KILL", container)
        gone = lambda: self.images.state(container)["State"]["Pid"] != before  # noqa: E731
        assert await_until(gone, PATIENCE_S)

    def start(self, service):
        """Start it unless the engine has, and wait until it serves."""
        self.images.run("start", self.container(service))
        self.images.await_healthy(self.container(service))

    def inside(self, service, *command, check=True):
        """A command in a service's container."""
        return self.images.run("exec", self.container(service), *command, check=check)

    def leader_session(self, database):
        """A session with the leader, once there is one."""
        found = []

        def connected():
            try:
                found.append(self._connect(database))
            except psycopg.OperationalError:
                return False
            return True

        assert await_until(connected, PATIENCE_S), f"nobody leads {database}"
        return found[0]

    def _connect(self, database):
        ports = [str(port) for port in self.ports.values()]
        return psycopg.connect(
            host=",".join(["127.0.0.1"] * len(ports)), port=",".join(ports), user="ann", password=PASSWORD,
            dbname=database, autocommit=True, target_session_attrs="read-write", connect_timeout=5,
        )  # fmt: skip

    def status(self):
        """What `herdpy status` says inside of a server: its exit code, and its document."""
        done = self.inside("server-1", "herdpy", "status", LOCAL, "--json", check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}

    def await_green(self):
        """Until `herdpy status` finds nothing wrong with three replicas."""
        await_green(self.status, len(SERVERS))


@pytest.fixture(scope="module")
def cluster(images, tmp_path_factory):
    """The whole cluster, with a role for clients and a table without a key: it would hold a row twice."""
    made = ComposedCluster(images, tmp_path_factory.mktemp("compose"))
    try:
        made.up()
        made.await_green()
        statement = f"CREATE ROLE ann SUPERUSER LOGIN PASSWORD '{PASSWORD}'"
        leader = made.status()[1]["tablespaces"][0]["leader"]
        made.inside(leader, "herdpy", "sql", LOCAL, "-q", "-c", statement)
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout", "60")


def led_by(cluster):
    return cluster.status()[1]["tablespaces"][0]["leader"]


def test_the_cluster_is_up_and_green(cluster):
    shown = cluster.inside("server-2", "herdpy", "status", LOCAL)
    assert "problem" not in shown.stderr
    code, found = cluster.status()
    assert code == 0
    assert [node["node"] for node in found["nodes"]] == list(SERVERS)
    assert sorted(one["state"] for one in found["tablespaces"][0]["replicas"]) == [
        "following", "following", "leading",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["leader", "follower", "bookie", "zookeeper"])
def test_a_killed_container_loses_nothing_that_was_acknowledged(cluster, kind):
    with cluster.leader_session("herdpy") as conn:
        conn.execute("DROP TABLE IF EXISTS t")
        conn.execute("CREATE TABLE t (value BIGINT)")
    leader = led_by(cluster)
    follower = next(name for name in SERVERS if name != leader)
    victim = {"leader": leader, "follower": follower, "bookie": "bookie-2", "zookeeper": "zookeeper"}[kind]
    stop = threading.Event()
    writers = [Writer(cluster, "herdpy", number, stop) for number in range(1, WRITERS + 1)]
    for writer in writers:
        writer.start()
    try:
        assert await_until(lambda: all(len(one.acknowledged) > 5 for one in writers), PATIENCE_S)
        cluster.kill(victim)
        cluster.start(victim)
        before = [len(one.acknowledged) for one in writers]
        went_on = lambda: all(  # noqa: E731
            len(one.acknowledged) > count for one, count in zip(writers, before, strict=True)
        )
        assert await_until(lambda: went_on() or any(one.failure for one in writers), PATIENCE_S)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert [one.failure for one in writers] == [None] * WRITERS
    acknowledged = [value for one in writers for value in one.acknowledged]
    unknown = {value for one in writers for value in one.unknown}
    with cluster.leader_session("herdpy") as conn:
        rows = [value for (value,) in conn.execute("SELECT value FROM t").fetchall()]
    assert len(rows) == len(set(rows))
    assert set(acknowledged) <= set(rows)
    assert set(rows) <= set(acknowledged) | unknown
    cluster.await_green()


def test_a_server_that_is_stopped_hands_over_first(cluster):
    leader = led_by(cluster)
    moved = cluster.inside(leader, "herdpy", "tablespace", "hand-over", LOCAL, leader)
    assert "is led by" in moved.stderr
    assert led_by(cluster) != leader
    cluster.images.run("stop", "--time", 60, cluster.container(leader))
    assert cluster.images.state(cluster.container(leader))["State"]["ExitCode"] == 0
    cluster.start(leader)
    cluster.await_green()
