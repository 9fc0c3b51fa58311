"""What keeps a client from servers: driver and commands tell SQLSTATE and advice, and come to an end."""

from __future__ import annotations

import socket
import threading

import pytest
from typer.testing import CliRunner

import herdpy
from herdpy.cli.app import app

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def others():
    """Ports where nobody listens, where a web server does, and where nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as web, socket.create_server(("127.0.0.1", 0)) as silent:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            nobody = gone.getsockname()[1]

        def serve():
            while True:
                try:
                    asking, _ = web.accept()
                except OSError:
                    return
                with asking:
                    asking.recv(1000)
                    asking.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        serving = threading.Thread(target=serve)
        serving.start()
        yield {"nobody": nobody, "web": web.getsockname()[1], "silent": silent.getsockname()[1]}
        web.shutdown(socket.SHUT_RDWR)
        serving.join()


CASES = {
    "nobody": ("herdpy://127.0.0.1:{nobody}/t", "08001", "Is the server up, and is that its port?"),
    "web": ("herdpy://127.0.0.1:{web}/t", "08001", "Something else than HerdPy listens there"),
    "silent": ("herdpy://127.0.0.1:{silent}/t?connect_timeout=1", "08001", "connect_timeout limits the wait"),
    "name": ("herdpy://nowhere.invalid/t", "08001", "Is the name of the host right?"),
    "tls": ("herdpy://ann@127.0.0.1:{server}/test?sslmode=require", "08001", "Leave sslmode out"),
    "zookeeper": ("herdpy+zk://127.0.0.1:{nobody}/herdpy?connect_timeout=1", "08001", "Is ZooKeeper up"),
}


@pytest.fixture(params=CASES)
def case(request, others, server):
    url, state, advice = CASES[request.param]
    return url.format(**others, server=server.port), state, advice


def test_the_driver_says_what_to_do(case):
    url, state, advice = case
    with pytest.raises(herdpy.OperationalError) as caught:
        herdpy.connect(url)
    assert caught.value.sqlstate == state
    assert advice in (caught.value.hint or "")


@pytest.mark.parametrize("command", ["sql", "status", "check", "import"])
def test_commands_say_the_same(case, command, tmp_path):
    url, state, advice = case
    source = tmp_path / "few.csv"
    source.write_text("n\n1\n")
    rest = {"sql": ["-c", "SELECT 1"], "import": [str(source), "-t", "few"]}.get(command, [])
    done = CliRunner().invoke(app, [command, url, *rest])
    assert done.exit_code == 1
    assert f"ERROR:  {state}: " in done.stderr
    assert advice in done.stderr
