"""deploy/kubernetes run in containers: it comes up, and is replaced pod by pod while clients write."""

from __future__ import annotations

import json
import threading

import psycopg
import pytest

from herdpy.testing.process import await_until
from tests.images.engine import PATIENCE_S, await_green, missing
from tests.images.manifests import manifest_objects
from tests.images.pods import PodCluster
from tests.tablespaces.test_tablespaces_moving import Writer

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
PASSWORD = "a 'long' one"
LOCAL = "herdpy://admin@127.0.0.1/herdpy"
SERVERS = ("herdpy-0", "herdpy-1", "herdpy-2")
WRITERS = 3


@pytest.fixture(scope="module")
def objects():
    """The manifests by kind and name, with the tag of the tests' image."""
    found = manifest_objects()
    (server,) = found["StatefulSet", "herdpy"]["spec"]["template"]["spec"]["containers"]
    server["image"] = "localhost/herdpy:latest"
    return found


class HerdPyPods(PodCluster):
    """The whole of it, and sessions with its leader."""

    def up(self):
        """Everything in the order in which it becomes ready."""
        for pod in self.pods("herdpy-zookeeper"):
            self.start(pod)
        for pod in self.pods("herdpy-zookeeper"):
            self.await_ready(pod)
        (job,) = (name for kind, name in self._objects if kind == "Job")
        self.run_job(job)
        for name in ("herdpy-bookie", "herdpy"):
            for pod in self.pods(name):
                self.start(pod)
            for pod in self.pods(name):
                self.await_ready(pod)

    def status(self):
        """What `herdpy status` says in the first pod: its exit code, and its document."""
        done = self.images.run("exec", SERVERS[0], "herdpy", "status", LOCAL, "--json", check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}

    def await_green(self):
        """Until it finds nothing wrong with three replicas."""
        await_green(self.status, len(SERVERS))

    def leader(self):
        return self.status()[1]["tablespaces"][0]["leader"]

    def addresses(self):
        """Of the servers that are there."""
        found = []
        for pod in SERVERS:
            shown = self.images.run("inspect", pod, check=False)
            networks = json.loads(shown.stdout)[0]["NetworkSettings"]["Networks"] if shown.stdout else {}
            found += [one["IPAddress"] for one in networks.values() if one["IPAddress"]]
        return found

    def leader_session(self, database):
        """A session with the leader, as the first role, once there is one."""
        found = []

        def connected():
            try:
                found.append(
                    psycopg.connect(
                        host=",".join(self.addresses()), user="herdpy", password=PASSWORD, dbname=database,
                        autocommit=True, target_session_attrs="read-write", connect_timeout=3,
                    )
                )  # fmt: skip
            except psycopg.OperationalError:
                return False
            return True

        assert await_until(connected, PATIENCE_S), f"nobody leads {database}"
        return found[0]


@pytest.fixture(scope="module")
def cluster(images, objects, tmp_path_factory):
    given = {"herdpy-first-role": {"password": PASSWORD}}
    made = HerdPyPods(images, objects, tmp_path_factory.mktemp("pods"), given)
    try:
        made.up()
        made.await_green()
        yield made
    finally:
        made.close()


def test_the_first_role_logs_in_from_outside_with_the_password_of_the_secret(cluster):
    with cluster.leader_session("herdpy") as conn:
        assert conn.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (
            True,
        )
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host=cluster.addresses()[0], user="admin", dbname="herdpy", connect_timeout=5)


def test_nothing_is_lost_when_every_server_is_replaced_while_clients_write(cluster):
    with cluster.leader_session("herdpy") as conn:
        conn.execute("CREATE TABLE t (value BIGINT)")
    stop = threading.Event()
    writers = [Writer(cluster, "herdpy", number, stop) for number in range(1, WRITERS + 1)]
    for writer in writers:
        writer.start()
    try:
        for pod in reversed(SERVERS):  # as Kubernetes does it
            before = [len(one.acknowledged) for one in writers]
            assert cluster.stop(pod) == 0
            cluster.start(pod)
            cluster.await_ready(pod)
            went_on = lambda: all(  # noqa: E731
                len(one.acknowledged) > count
                for one, count in zip(writers, before, strict=True)  # noqa: B023
            )
            assert await_until(lambda: went_on() or any(one.failure for one in writers), PATIENCE_S)  # noqa: B023
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert [one.failure for one in writers] == [None] * WRITERS
    acknowledged = {value for one in writers for value in one.acknowledged}
    unknown = {value for one in writers for value in one.unknown}
    with cluster.leader_session("herdpy") as conn:
        rows = [value for (value,) in conn.execute("SELECT value FROM t").fetchall()]
    assert len(rows) == len(set(rows))
    assert acknowledged <= set(rows) <= acknowledged | unknown
    cluster.await_green()


def test_a_bookie_and_zookeeper_are_replaced_and_serve_again(cluster):
    with cluster.leader_session("herdpy") as conn:
        conn.execute("CREATE TABLE kept (id INT PRIMARY KEY)")
        for number, pod in enumerate(("herdpy-bookie-1", "herdpy-zookeeper-2")):
            conn.execute("INSERT INTO kept VALUES (%s)", (number,))
            cluster.stop(pod)
            cluster.start(pod)
            cluster.await_ready(pod)
    cluster.await_green()
    with cluster.leader_session("herdpy") as conn:
        conn.execute("INSERT INTO kept VALUES (2)")
        assert conn.execute("SELECT count(*) FROM kept").fetchone() == (3,)
