"""conf/zookeeper.cfg, conf/bookkeeper.conf and conf/cluster.toml: the real programs start with them.

What names a place (directories, ports, addresses) is replaced, for they are those of containers and other
machines; everything else is as in the file.
"""

import re
import tomllib
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from herdpy.testing import ZooKeeperServer
from herdpy.testing.bookie import BookieServer
from herdpy.testing.java import write_configuration
from herdpy.testing.zookeeper import LEDGERS_ROOT, ClusterZnodes
from herdpy_server.config import load
from herdpy_server.config.fields import all_settings

CONF = Path(__file__).parents[2] / "conf"
OF_A_PLACE = {
    "metadataServiceUri",
    "bookiePort",
    "journalDirectories",
    "ledgerDirectories",
    "indexDirectories",
}


def properties(path):
    """The settings of a file of ``name=value`` lines; fails when one stands there twice."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    found = {name: value for name, _, value in pairs}
    assert len(found) == len(pairs)
    assert all(equals for _, equals, _ in pairs)
    return found


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    """A ZooKeeper with the file's settings."""
    home = tmp_path_factory.mktemp("zookeeper")
    server = ZooKeeperServer(home)
    own = {
        "dataDir": home / "data",
        "dataLogDir": home / "log-of-transactions",
        "clientPort": server.port,
        "clientPortAddress": server.address,
    }
    write_configuration(home / "zoo.cfg", {**properties(CONF / "zookeeper.cfg"), **own})
    with server:
        yield server


def test_zookeeper_starts_with_its_file_and_grants_the_sessions_that_servers_ask_for(zookeeper, caplog):
    wanted_s = load(CONF / "cluster.toml").config.cluster.session_timeout_s
    client = KazooClient(zookeeper.hostport, timeout=wanted_s)
    with caplog.at_level(1, "kazoo"):
        client.start(20)
    try:
        granted = re.search(r"negotiated session timeout: (\d+)", caplog.text)
        assert granted is not None
        assert int(granted[1]) == wanted_s * 1000
        assert "Mode: standalone" in client.command(b"srvr")
        assert "not in the whitelist" in client.command(b"dump")
    finally:
        client.stop()
        client.close()


def test_bookie_starts_with_its_file(zookeeper, tmp_path):
    lines = properties(CONF / "bookkeeper.conf")
    here = {"advertisedAddress": "127.0.0.1", "listeningInterface": "lo", "allowLoopback": "true"}
    bookie = BookieServer(tmp_path, zookeeper.hostport)
    own = {name: bookie._values[name] for name in OF_A_PLACE}
    bookie._values = {**lines, **own, **here, "useHostNameAsBookieID": "false"}
    try:
        with ClusterZnodes(zookeeper.hostport) as znodes:
            znodes.initialise()
        bookie.start()
        assert bookie.is_running
        assert (tmp_path / "journal" / "current").is_dir()
    finally:
        bookie.close()


def test_bookies_do_what_commits_need():
    lines = properties(CONF / "bookkeeper.conf")
    assert lines["journalFlushWhenQueueEmpty"] == "true"
    assert (lines["journalSyncData"], lines["journalWriteData"]) == ("true", "true")
    assert lines["journalDirectories"] != lines["ledgerDirectories"]


def test_the_files_of_a_cluster_agree():
    zookeeper, bookie = properties(CONF / "zookeeper.cfg"), properties(CONF / "bookkeeper.conf")
    cluster = load(CONF / "cluster.toml").config.cluster
    assert cluster.zookeeper.endswith(f":{zookeeper['clientPort']}")
    uri = f"zk+longhierarchical://{cluster.zookeeper}{cluster.ledgers_root}"
    assert bookie["metadataServiceUri"] == uri
    assert cluster.ledgers_root == LEDGERS_ROOT
    shortest_ms = int(zookeeper["minSessionTimeout"])
    assert 2 * int(zookeeper["tickTime"]) <= shortest_ms <= cluster.session_timeout_s * 1000
    assert int(zookeeper["maxSessionTimeout"]) >= int(bookie["zkTimeout"])
    assert cluster.lease_s < cluster.session_timeout_s


def test_the_server_knows_every_setting_of_its_file():
    tables = tomllib.loads((CONF / "cluster.toml").read_text())
    named = {f"{section}.{name}" for section, table in tables.items() for name in table}
    assert named <= set(all_settings())
    assert load(CONF / "cluster.toml").config.data.directory == "/var/lib/herdpy"
