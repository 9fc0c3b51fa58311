"""What is said of a cluster that cannot be, and of what ZooKeeper cannot be shown."""

from __future__ import annotations

import pytest

from herdpy.zookeeper_access import ZooKeeperAccess
from herdpy_server.config import ConfigError, load
from herdpy_server.process.member import zookeeper_access
from tests.config.kit import DATA, problems


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("zookeeper = 'one'", 'is not of the form "host:port,host:port"'),
        ("zookeeper = 'one:2181, two:2181'", 'is not of the form "host:port,host:port"'),
        ("root = '/'", 'is no path such as "/herdpy"'),
        ("root = 'herdpy'", 'is no path such as "/herdpy"'),
        ("ledgers_root = '/a//b'", 'is no path such as "/herdpy"'),
        ("node = 'a/b'", "an id has letters"),
        ("tablespace = '../a'", "a name has letters"),
        ("ack_quorum = 4", "must hold"),
        ("write_quorum = 4", "must hold"),
        ("lease_s = 1.6", "is longer than"),
        ("commit_delay_s = 0.2", "0 to 0.1"),
        ("commit_delay_s = -1", "0 to 0.1"),
        ("commit_siblings = 0", "1 to 1000000"),
    ],
)
def test_a_cluster_that_cannot_be_is_told(written, line, told):
    path = written(f"[cluster]\n{line}\n")
    (problem,) = problems(path)
    assert f"cluster.{line.split(' =')[0]}" in problem
    assert told in problem


def test_a_cluster_that_can_be(written):
    path = written(
        "[cluster]\nzookeeper = 'one:2181,[::1]:2182'\nnode = 'n.1'\nroot = '/a/b'\nack_quorum = 3\n"
    )
    assert load(path, flags=[DATA]).config.cluster.node == "n.1"


def test_the_secret_of_a_cluster_is_looked_at(tmp_path):
    path, secret = tmp_path / "server.toml", tmp_path / "secret"
    path.write_text(f'[data]\ndirectory = "/srv/db"\n[cluster]\nsecret_file = "{secret}"\n')
    for text, problem in ((None, "No such file"), ("short\n", "no secret of 16 characters")):
        if text is not None:
            secret.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(path)
        (told,) = caught.value.problems
        assert told.startswith(f"{path}:4: cluster.secret_file: ")
        assert problem in told
    secret.write_text("long enough to be one\n")
    assert load(path).config.cluster.secret_file == str(secret)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("ca = '{certificate}'", "zookeeper.ca needs zookeeper.tls = true"),
        ("tls = true\nkey = '{key}'", "zookeeper.key is given without zookeeper.certificate"),
        ("tls = true\nca = '/none.pem'", "zookeeper.ca /none.pem cannot be used: No such file or directory"),
        ("tls = true\ncertificate = '{key}'\nkey = '{key}'", "zookeeper.certificate {key} cannot be used: "),
    ],
)
def test_what_zookeeper_cannot_be_shown_is_told(written, pem, lines, told):
    certificate, key = pem["own"], pem["own_key"]
    path = written("[zookeeper]\n" + lines.format(certificate=certificate, key=key) + "\n")
    with pytest.raises(ConfigError) as caught:
        load(path, flags=[DATA])
    (problem,) = caught.value.problems
    assert told.format(key=key) in problem


def test_how_a_node_reaches_zookeeper(written, pem):
    certificate, key = pem["own"], pem["own_key"]
    text = f"[zookeeper]\ntls = true\nca = '{certificate}'\ncertificate = '{certificate}'\nkey = '{key}'\n"
    config = load(written(text), flags=[DATA]).config
    wanted = ZooKeeperAccess(True, str(certificate), str(certificate), str(key))
    assert zookeeper_access(config) == wanted
    assert zookeeper_access(load(written(""), flags=[DATA]).config) == ZooKeeperAccess()
