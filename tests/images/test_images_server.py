"""The image of docker/Dockerfile, built and run as docker/compose.yaml runs it: read-only, without rights."""

from __future__ import annotations

import json
import secrets
import urllib.request

import psycopg
import pytest

from herdpy_server.config import ServerConfig
from tests.images.engine import missing

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
IMAGE = "localhost/herdpy:latest"
PASSWORD = "a 'long' one"
LOCAL = "herdpy://admin@127.0.0.1/herdpy"
# As docker/compose.yaml says; test_images_static holds the two together.
CONFINED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


class ServerContainer:
    """A server in a container, with its data on a volume."""

    def __init__(self, images, name):
        self._images, self.name = images, name
        images.run(
            "run", "--detach", "--name", name, *CONFINED, "--volume", f"{name}:/var/lib/herdpy",
            "--publish", "127.0.0.1::5432", "--publish", "127.0.0.1::8480", IMAGE,
        )  # fmt: skip
        images.await_healthy(name)

    def port(self, inside):
        """Where a port is published."""
        return int(self._images.out("port", self.name, f"{inside}/tcp").rpartition(":")[2])

    def inside(self, *command):
        """What a command in the container prints."""
        return self._images.out("exec", self.name, *command)

    def connect(self):
        """A session over the published port."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port(5432), user="ann", password=PASSWORD, dbname="herdpy",
            autocommit=True, connect_timeout=10,
        )  # fmt: skip


@pytest.fixture(scope="module")
def server(images):
    """A server with a role that may log in from outside."""
    container = ServerContainer(images, f"server-{secrets.token_hex(4)}")
    literal = PASSWORD.replace("'", "''")
    statement = f"CREATE ROLE ann SUPERUSER LOGIN PASSWORD '{literal}'"
    container.inside("herdpy", "sql", LOCAL, "-q", "-c", statement)
    yield container
    images.run("rm", "--force", "--volumes", "--time", "0", container.name)


def test_the_image_says_what_the_dockerfile_says(images):
    found = json.loads(images.out("inspect", IMAGE))[0]
    config = found["Config"]
    assert config["User"] == "herdpy"
    assert config["Entrypoint"] == ["herdpy", "server"]
    assert config["StopSignal"] == "SIGTERM"
    assert found["Healthcheck"]["Test"][0] == "CMD"
    assert config["Volumes"].keys() == {"/var/lib/herdpy"}


def test_the_image_has_no_sources_caches_or_uv(images):
    listed = images.out("run", "--rm", "--entrypoint", "ls", IMAGE, "/", "/opt", "/opt/herdpy/bin").split()
    assert "herdpy" in listed
    assert not {"src", "uv", "uvx"} & set(listed)


def test_the_configuration_of_the_image_is_right(images):
    said = images.out("run", "--rm", IMAGE, "--config", "/etc/herdpy/server.toml", "--check-config")
    assert said == "The configuration is right."


def test_the_server_runs_as_nobody_in_particular_and_writes_nothing_but_its_data(images, server):
    assert server.inside("id", "-u") == "10001"
    refused = images.run("exec", server.name, "touch", "/opt/herdpy/x", check=False)
    assert refused.returncode != 0
    assert "Read-only file system" in refused.stderr
    assert "0000000000000000" in server.inside("grep", "CapEff", "/proc/1/status")


def test_clients_from_outside_need_a_password(server):
    with server.connect() as conn:
        assert conn.execute("SELECT current_user").fetchone() == ("ann",)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host="127.0.0.1", port=server.port(5432), user="admin", dbname="herdpy")


def test_the_page_says_that_it_is_ready(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port(8480)}/ready", timeout=10) as answer:
        assert json.load(answer)["ready"] is True


def test_sigterm_ends_it_in_order_and_its_data_stays(images, server):
    with server.connect() as conn:
        conn.execute("CREATE TABLE stopped (id INT PRIMARY KEY)")
        conn.execute("INSERT INTO stopped SELECT generate_series(1, 1000)")
    grace_s = int(ServerConfig().shutdown.graceful_timeout_s) + 30
    images.run("stop", "--time", grace_s, server.name)
    assert images.state(server.name)["State"]["ExitCode"] == 0
    records = [json.loads(line) for line in images.logs(server.name).splitlines() if line.startswith("{")]
    assert records[-1]["message"] == "stopped"
    images.run("start", server.name)
    images.await_healthy(server.name)
    with server.connect() as conn:
        assert conn.execute("SELECT count(*) FROM stopped").fetchone() == (1000,)


def test_what_was_acknowledged_outlives_a_kill(images, server):
    with server.connect() as conn:
        conn.execute("CREATE TABLE killed (id INT PRIMARY KEY)")
        for number in range(200):
            conn.execute("INSERT INTO killed VALUES (%s)", (number,))
        images.run("kill", "--signal", "KILL", server.name)
    images.run("wait", server.name)
    images.run("start", server.name)
    images.await_healthy(server.name)
    with server.connect() as conn:
        assert conn.execute("SELECT count(*) FROM killed").fetchone() == (200,)
