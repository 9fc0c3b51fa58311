"""URLs and options: which directory is meant, what is refused and how."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import herdpy
from herdpy.dbapi import url as urls


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
    "url", ["herdpy://host/db", "herdpy://host:5432", "herdpy+zk://a,b/c", "herdpy+zk:///x"]
)
def test_servers_need_the_remote_driver(url):
    with pytest.raises(
        herdpy.NotSupportedError, match="remote driver, which this version does not have"
    ) as e:
        herdpy.connect(url)
    assert e.value.sqlstate == "0A000"


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
    assert 'pip install "herdpy[server]"' in done.stdout
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
