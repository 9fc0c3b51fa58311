"""The console on a cluster: the leader of a tablespace is moved, replicas are added, removed and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from herdpy.testing.process import await_until
from tests.tablespaces.world import PATIENCE_S

TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')


class ConsoleClient:
    """A browser on one server's console."""

    def __init__(self, port: int) -> None:
        self._origin = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=f"{self._origin}/console/", follow_redirects=True, timeout=60)

    def get(self, path: str) -> str:
        return self.client.get(path).text

    def act(self, path: str, **form: str) -> str:
        """Send a form, with the token of a page."""
        token = TOKEN.search(self.get("cluster"))
        assert token is not None
        headers = {"origin": self._origin}
        return self.client.post(path, data={"csrf_token": token[1], **form}, headers=headers).text


@pytest.fixture
def console(world) -> Iterator[ConsoleClient]:
    """The console of the first server."""
    ports = {server.id: server.http_port for server in world.cluster.status().servers}
    made = ConsoleClient(ports["server-1"])
    yield made
    made.client.close()


def placed(world, made, leader: str, follower: str) -> str:
    """A tablespace of two replicas, once one leads and the other follows."""
    name = str(made(f"WITH (leader = '{leader}', replicas = '{leader},{follower}', expected_replicas = 2)"))
    world.await_states(name, {leader: "leading", follower: "following"})
    return name


def test_a_tablespace_is_moved_by_forms(world, made, console):
    name = placed(world, made, "server-1", "server-2")
    shown = console.get(f"tablespaces/confirm?action=lead&tablespace={name}&node=server-2")
    assert f"ALTER TABLESPACE {name} LEADER &#39;server-2&#39;" in shown
    said = console.act("tablespaces/act", action="lead", tablespace=name, node="server-2")
    assert f"Have server-2 lead {name}: done." in said
    world.await_states(name, {"server-2": "leading", "server-1": "following"})
    console.act("tablespaces/act", action="add", tablespace=name, node="server-3")
    world.await_states(name, {"server-2": "leading", "server-1": "following", "server-3": "following"})
    console.act("tablespaces/act", action="remove", tablespace=name, node="server-1")
    world.await_states(name, {"server-2": "leading", "server-3": "following"})
    assert f"Log of {name}" in console.get("cluster")


def test_replicas_are_compared_in_a_job(world, made, console):
    name = placed(world, made, "server-1", "server-2")
    world.run("CREATE TABLE compared (i INT PRIMARY KEY)", "server-1", database=name)
    assert f"{name} is being checked." in console.act("tablespaces/check", tablespace=name)
    assert await_until(lambda: "compared" in console.get("jobs/live"), PATIENCE_S)


def test_a_job_where_the_tablespace_is_followed_names_the_leader(world, made, console):
    name = placed(world, made, "server-2", "server-1")
    console.act("tablespaces/check", tablespace=name)
    assert await_until(lambda: "The leader is node server-2" in console.get("jobs/live"), PATIENCE_S)


def test_a_node_that_does_not_exist_leads_nothing(made, console):
    name = made()
    said = console.act("tablespaces/act", action="lead", tablespace=name, node="nowhere")
    assert "nowhere" in said
    assert 'class="sqlstate"' in said
