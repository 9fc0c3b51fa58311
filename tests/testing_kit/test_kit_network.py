"""Partitions: servers in namespaces, cut off in either direction and healed."""

import os
import socket
import subprocess
import sys

import pytest

from herdpy.testing import BookKeeperCluster, NetworkUnavailableError
from herdpy.testing.process import Child, await_until
from herdpy.testing.zookeeper import ClusterZnodes
from tests.testing_kit.kit_programs import python

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit

PORT = 4000
# Prints the letters it receives, and sends each back.
ECHO = f"""
import socket
with socket.create_server(("0.0.0.0", {PORT})) as server:
    print("listening", flush=True)
    peer = server.accept()[0]
    while data := peer.recv(1):
        print(data.decode(), end="", flush=True)
        peer.sendall(data)
"""


@pytest.fixture
def echo(network, tmp_path):
    """A connection to a program in a namespace, the host it runs at, and what it has received so far."""
    host = network.add_host()
    child = Child("echo", [*host.prefix, *python(ECHO)], tmp_path / "log")
    child.start()
    child.await_listening("0.0.0.0", PORT, 20)
    with socket.create_connection((host.address, PORT), timeout=20) as connection:
        yield connection, host, lambda: (tmp_path / "log").read_text().removeprefix("listening\n")
    child.kill()


def silent(connection):
    """Whether nothing arrives: what is lost cannot be waited for, so this waits a moment."""
    connection.settimeout(0.3)
    try:
        return connection.recv(1) == b"?"
    except TimeoutError:
        return True
    finally:
        connection.settimeout(20)


def test_cut_connection_hangs_and_goes_on_when_it_is_healed(echo):
    connection, host, received = echo
    connection.sendall(b"a")
    assert connection.recv(1) == b"a"
    host.cut()
    connection.sendall(b"b")
    assert (silent(connection), received()) == (True, "a")
    host.heal()
    assert (connection.recv(1), received()) == (b"b", "ab")


def test_only_what_is_sent_to_the_host_is_lost(echo):
    connection, host, received = echo
    host.cut(outgoing=False)
    connection.sendall(b"a")
    assert (silent(connection), received()) == (True, "")
    host.heal()
    assert connection.recv(1) == b"a"


def test_only_what_the_host_sends_is_lost(echo):
    connection, host, received = echo
    host.cut(incoming=False)
    connection.sendall(b"a")
    assert (await_until(lambda: received() == "a", 20), silent(connection)) == (True, True)
    host.heal()
    assert connection.recv(1) == b"a"


def test_new_connection_to_a_cut_host_hangs(network):
    host = network.add_host()
    host.cut()
    with pytest.raises(TimeoutError), socket.create_connection((host.address, PORT), timeout=0.3):
        pass
    host.heal()
    with pytest.raises(ConnectionRefusedError), socket.create_connection((host.address, PORT), timeout=20):
        pass


def test_bookie_cut_from_zookeeper_loses_its_registration(network, own_cluster):
    cluster: BookKeeperCluster = own_cluster(bookies=2, network=network)
    lost = cluster.bookies[0]
    with ClusterZnodes(cluster.zookeeper.hostport) as znodes:
        assert znodes.is_registered(lost.id)
        lost.cut()
        assert await_until(lambda: not znodes.is_registered(lost.id), 60)
        assert lost.is_running
        lost.heal()
        assert await_until(lambda: znodes.is_registered(lost.id), 60)


def test_servers_on_loopback_cannot_be_cut(own_zookeeper):
    with pytest.raises(NetworkUnavailableError, match="start the cluster with a Network"):
        own_zookeeper.cut()


def test_reason_is_given_where_there_can_be_no_network():
    code = (
        "from herdpy.testing import Network, NetworkUnavailableError\n"
        "try:\n    with Network(): pass\nexcept NetworkUnavailableError as error: print(error)"
    )
    environ = {**os.environ, "PATH": ""}
    without_ip = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    expected = "need root" if os.geteuid() != 0 else "the command ip was not found"
    assert expected in without_ip.stdout
