"""URLs and options: which directory is meant, what is refused and how."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import herdpy
from herdpy.dbapi import url as urls
from herdpy.dbapi.options import remote_options
from herdpy.dbapi.url import ServersUrl, parse


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("herdpy:///a/b", "/a/b"),
        ("herdpy:////a/b", "/a/b"),
        ("herdpy:/a/b", "/a/b"),
        ("HERDPY:///a/b", "/a/b"),
        ("herdpy:///a/b/", "/a/b"),
        ("herdpy:///a%20b/c%3Fd%25", "/a b/c?d%"),
        ("herdpy:///gr%C3%BCn", "/grün"),
        ("herdpy:///grün", "/grün"),
        ("/a/b", "/a/b"),
        (Path("/a/b"), "/a/b"),
        ("herdpy:a/b", "{cwd}/a/b"),
        ("herdpy:./a", "{cwd}/a"),
        ("herdpy:///./a/b", "{cwd}/a/b"),
        ("herdpy:///../a", "{parent}/a"),
        ("./a", "{cwd}/a"),
        ("../a", "{parent}/a"),
        (Path("a"), "{cwd}/a"),
    ],
)
def test_paths(url, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = path.format(cwd=tmp_path, parent=tmp_path.parent)
    assert urls.parse(url).path == wanted


def test_options_in_the_url():
    assert urls.parse("herdpy:///a?autocommit=true&x=a%26b").options == {"autocommit": "true", "x": "a&b"}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "herdpy:",
        "herdpy://",
        "herdpy:///",
        "sqlite:///x",
        "postgresql://h/d",
        "shop",
        "herdpy:///a%00b",
        "herdpy:///%ff",
        5,
        None,
        b"/a",
    ],
)
def test_what_names_no_database(url):
    with pytest.raises(herdpy.InterfaceError):
        herdpy.connect(url)


@pytest.mark.parametrize(
    ("url", "place", "rest"),
    [
        ("herdpy+zk://a,b:1/c?tablespace=x", "a:2181,b:1/c", (None, None, "x")),
        ("herdpy+zk://a", "a:2181/herdpy", (None, None, "herdpy")),
        ("herdpy+zk://a/c?hosts=b:1", "a:2181,b:1/c", (None, None, "herdpy")),
        ("herdpy+zk:///c?hosts=a,b:1", "a:2181,b:1/c", (None, None, "herdpy")),
        (
            "HERDPY+ZK://ann:p%40w@[::1]:5,b/c%20d/e/?tablespace=x",
            "[::1]:5,b:2181/c d/e",
            ("ann", "p@w", "x"),
        ),
    ],
)
def test_urls_that_name_a_zookeeper(url, place, rest):
    target = parse(url)
    assert isinstance(target, ServersUrl)
    options = remote_options(target, target.options, {})
    assert (str(options.zookeeper), options.hosts) == (place, ())
    assert (options.user, options.password, options.database) == rest


@pytest.mark.parametrize(
    "url",
    [
        "herdpy+zk:///x",
        "herdpy+zk:a/x",
        "herdpy+zk://a:0/x",
        "herdpy+zk://a/x?hosts=b:0",
        "herdpy+zk://a/x?tablespace=b/c",
        "herdpy+zk://a/x?tablespace=",
        "herdpy+zk://a/x?wibble=1",
    ],
)
def test_urls_that_name_a_zookeeper_wrongly(url):
    with pytest.raises(herdpy.InterfaceError):
        herdpy.connect(url)


@pytest.mark.parametrize(
    ("url", "hosts", "rest"),
    [
        ("herdpy://host/db", [("host", 5432)], (None, None, "db")),
        ("herdpy://host:1", [("host", 1)], (None, None, "herdpy")),
        ("herdpy://ann@a:1,b,[::1]:3/db", [("a", 1), ("b", 5432), ("::1", 3)], ("ann", None, "db")),
        ("herdpy://a%40b:p%2Fw@a/d%20b", [("a", 5432)], ("a@b", "p/w", "d b")),
        ("herdpy:///db?hosts=a:1,b:2", [("a", 1), ("b", 2)], (None, None, "db")),
        ("herdpy://a/db?hosts=b:2", [("a", 5432), ("b", 2)], (None, None, "db")),
    ],
)
def test_urls_that_name_servers(url, hosts, rest):
    target = parse(url)
    assert isinstance(target, ServersUrl)
    options = remote_options(target, target.options)
    assert list(options.hosts) == hosts
    assert (options.user, options.password, options.database) == rest


@pytest.mark.parametrize(
    "url",
    [
        "herdpy://host:0/db",
        "herdpy://host:70000/db",
        "herdpy://host:x/db",
        "herdpy://host/db?wibble=1",
        "herdpy://host/db?connect_timeout=0",
        "herdpy://host/db?failover_timeout=soon",
        "herdpy:///db?hosts=",
    ],
)
def test_urls_that_name_servers_wrongly(url):
    with pytest.raises(herdpy.InterfaceError):
        herdpy.connect(url)


def test_options_of_servers():
    target = parse("herdpy://a/db?statement_timeout=1.5&lock_timeout=2s&max_staleness=0.25&sslmode=require")
    assert isinstance(target, ServersUrl)
    options = remote_options(target, {**target.options, "application_name": "me", "read_level": "any"})
    assert options.settings == {
        "statement_timeout": "1500",
        "lock_timeout": "2000",
        "herdpy.max_staleness_ms": "250",
        "herdpy.read_level": "any",
    }
    assert (options.application_name, options.libpq) == ("me", {"sslmode": "require"})


def test_nobody_there_is_told_at_once():
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    with pytest.raises(herdpy.OperationalError) as caught:
        herdpy.connect(f"herdpy://127.0.0.1:{port}/db?connect_timeout=60")
    assert caught.value.sqlstate == "08001"


def test_a_server_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        with pytest.raises(herdpy.OperationalError, match="does not answer"):
            herdpy.connect(f"herdpy://127.0.0.1:{port}/db?connect_timeout=0.2")


def test_autocommit_by_url(url):
    with herdpy.connect(f"{url}?autocommit=true") as connection:
        assert connection.autocommit
    with herdpy.connect(f"{url}?autocommit=off") as connection:
        assert not connection.autocommit
    with pytest.raises(herdpy.InterfaceError, match="true or false"):
        herdpy.connect(f"{url}?autocommit=perhaps")


def test_create_false_wants_a_database(url, path):
    for attempt in (lambda: herdpy.connect(url, create=False), lambda: herdpy.connect(f"{url}?create=no")):
        with pytest.raises(herdpy.OperationalError) as caught:
            attempt()
        assert caught.value.sqlstate == "08001"
        assert not path.exists()
    herdpy.connect(url, create=True).close()
    herdpy.connect(url, create=False).close()


def test_settings_of_the_database(url):
    with herdpy.connect(f"{url}?checkpoint_rows=1234", plan_cache=77) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(herdpy.InterfaceError, match="no_such_setting"):
        herdpy.connect(url, no_such_setting=5)
    with pytest.raises(herdpy.InterfaceError, match="plan_cache is a number"):
        herdpy.connect(url, plan_cache="many")


def test_a_file_in_the_way(tmp_path):
    there = tmp_path / "file"
    there.write_text("no directory")
    with pytest.raises(herdpy.OperationalError):
        herdpy.connect(there)
    assert there.read_text() == "no directory"


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(herdpy.Error):
        herdpy.connect(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before


def test_connections_share_the_database(url, path):
    one, two = herdpy.connect(url, autocommit=True), herdpy.connect(path, autocommit=True)
    one.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    one.execute("INSERT INTO t VALUES (1)")
    assert two.execute("SELECT a FROM t").fetchall() == [(1,)]
    one.close()
    assert two.execute("SELECT a FROM t").fetchall() == [(1,)]
    two.close()
    with herdpy.connect(url) as three:
        assert three.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_a_second_process_is_refused(auto, path):
    code = (
        "import herdpy, sys\n"
        "try: herdpy.connect(sys.argv[1])\n"
        "except herdpy.OperationalError as error: print(error.sqlstate, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("55006 ")
    assert str(os.getpid()) in done.stdout
    assert auto.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("missing", ["lmdb", "pyarrow"])
def test_without_the_server_extra(missing, tmp_path):
    """The driver alone imports, and says what to install when a directory is to be opened."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import herdpy\n"
        "try: herdpy.connect(sys.argv[1])\n"
        "except herdpy.InterfaceError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "pip install herdpydb " in done.stdout
    assert missing in done.stdout


def test_importing_the_driver_loads_nothing_of_the_engine():
    code = (
        "import sys, herdpy\n"
        "heavy = {'lmdb', 'duckdb', 'sqlglot', 'pyarrow', 'numpy', 'pandas', 'herdpy_server', 'herdpy_sql'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_reads_on_followers_are_bounded_unless_a_level_is_named():
    server = parse("herdpy://a,b/db?target=follower")
    assert isinstance(server, ServersUrl)
    assert remote_options(server, server.options).settings == {"herdpy.read_level": "bounded"}
    chosen = remote_options(server, {**server.options, "read_level": "any"})
    assert (chosen.target, chosen.settings) == ("follower", {"herdpy.read_level": "any"})
    exact = remote_options(server, {**server.options, "read_level": "linearizable"})
    assert (exact.target, exact.settings) == ("follower", {"herdpy.read_level": "linearizable"})
    with pytest.raises(herdpy.InterfaceError):
        remote_options(server, {"target": "anybody"})
