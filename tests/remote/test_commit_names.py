"""The names that the driver gives its commits: what they cost, and that none is used twice."""

from __future__ import annotations

import os

import herdpy
from herdpy.dbapi.remote import commits

OPTIONS = "sslmode=disable&gssencmode=disable"  # the proxy reads messages, and nothing before them


def test_a_name_costs_no_message(proxy):
    sent: list[bytes] = []

    def watch(side: str, kind: bytes) -> bool:
        if side == "client":
            sent.append(kind)
        return False

    with herdpy.connect(f"herdpy://ann@127.0.0.1:{proxy.port}/test?{OPTIONS}", autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS u")
        conn.execute("CREATE TABLE u (k BIGINT)")
        for key in range(3):  # prepared by then
            conn.execute("INSERT INTO u VALUES (%s)", (key,))
        proxy.watch = watch
        conn.execute("INSERT INTO u VALUES (%s)", (3,))
        proxy.watch = lambda side, kind: False
        assert b"".join(sent) == b"BDES"
        assert conn.info.commit_position


def new_name(link):
    return link._commits.new_name(link._connection.connected(10**9))


def test_no_two_names_are_the_same(server):
    url = f"herdpy://ann@127.0.0.1:{server.port}/test"
    with herdpy.connect(url, autocommit=True) as one, herdpy.connect(url, autocommit=True) as other:
        links = [one.shared_link.link, other.shared_link.link]
        names = [new_name(link) for link in links for _ in range(100)]
        for link in links:
            link._commits.renew()  # as when the position is old
            names.append(new_name(link))
        assert len(set(names)) == len(names)
        assert max(map(len, names)) <= 64


def test_a_child_makes_no_name_of_its_parents(server, monkeypatch):
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{server.port}/test", autocommit=True) as conn:
        link = conn.shared_link.link
        before = new_name(link).rpartition(".")[0]
        came, gone = os.pipe()
        child = os.fork()
        if not child:
            os.write(gone, str(commits._forks).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert int(os.read(came, 20)) == commits._forks + 1
        monkeypatch.setattr(commits, "_forks", commits._forks + 1)
        assert new_name(link).rpartition(".")[0] != before
