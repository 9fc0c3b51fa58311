"""docs/first-errors.md: each error of a first hour, made for real, names its section, which is there."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

import herdpy
from herdpy.cli.app import app
from herdpy.first_errors import FIRST_ERRORS, PAGE, page_of
from tests.cli.processes import command, environment
from tests.support.server_process import RunningServer

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (\S+)$", TEXT, re.MULTILINE)


class Done(NamedTuple):
    returncode: int
    stderr: str


def run(place: Path, *words: object) -> Done:
    """A command in this process, in a directory."""
    with contextlib.chdir(place):
        result = CliRunner().invoke(app, [str(one) for one in words])
    unhandled = result.exception
    assert unhandled is None or isinstance(unhandled, SystemExit), unhandled
    return Done(result.exit_code, result.stderr)


def run_apart(place: Path, *words: object, **variables: str) -> Done:
    """A command in a process of its own, with more variables of the environment."""
    done = subprocess.run(
        command(*words),
        cwd=place,
        env={**environment(place), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Done(done.returncode, done.stderr)


class Produced(NamedTuple):
    section: str
    said: str
    make: Callable[[Path], Done]
    sqlstate: str = ""
    code: int = 1


def _port_taken(place: Path) -> Done:
    with socket.create_server(("127.0.0.1", 0)) as there:
        return run_apart(place, "server", "--data", "d", "--port", there.getsockname()[1], *QUIET)


QUIET = ("--set", "http.enabled=false", "--set", "grpc.enabled=false")


def _in_use(place: Path) -> Done:
    with herdpy.connect(place / "d"):
        return run_apart(place, "sql", "./d", "-c", "SELECT 1")


def _strange(place: Path) -> Done:
    (place / "d").mkdir()
    (place / "d" / "thesis.txt").touch()
    return run(place, "sql", "./d", "-c", "SELECT 1")


def _encoding(place: Path) -> Done:
    (place / "names.csv").write_bytes(b"k,name\n1,caf\xe9\n")
    return run(place, "import", "./d", "names.csv", "--table", "t", "--create")


def _newer(place: Path) -> Done:
    herdpy.connect(place / "d").close()
    (place / "d" / "HERDPY").write_text('{"format": 99, "uuid": "x"}')
    return run(place, "sql", "./d", "-c", "SELECT 1")


def _unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as there:
        return int(there.getsockname()[1])


def _no_zookeeper(place: Path) -> Done:
    where = f"cluster.zookeeper=127.0.0.1:{_unused_port()}"
    soon = ("--set", "cluster.join_timeout_s=0.5")
    return run_apart(place, "server", "--data", "d", "--port", 0, *QUIET, "--set", where, *soon)


def _not_reached(place: Path) -> Done:
    return run(place, "sql", f"herdpy://127.0.0.1:{_unused_port()}/x", "-c", "SELECT 1")


def _no_package(place: Path) -> Done:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "psycopg", None)
        return run(place, "status", "herdpy://h/x")


def _no_java(place: Path) -> Done:
    # A process of its own: this one may know already where Java is.
    return run_apart(place, "dev", "up", "--dir", "c", PATH="/nowhere", JAVA_HOME="")


ALONE = [
    Produced("port-taken", "Address already in use", _port_taken),
    Produced("no-database", "there is no database in", lambda place: run(place, "info", "./nothing")),
    Produced("directory-in-use", "Its process id is", _in_use, "55006"),
    Produced("not-a-database", "neither empty nor a HerdPy database", _strange, "55000"),
    Produced("missing-package", "pip install", _no_package),
    Produced(
        "wrong-url",
        "herdpy://host:port/name",
        lambda place: run(place, "sql", "postgres://localhost/x", "-c", "SELECT 1"),
        code=2,
    ),
    Produced("server-not-reached", "herdpy server starts one", _not_reached, "08001"),
    Produced("java", "install Java 17", _no_java),
    Produced(
        "permissions",
        "cannot open /sys/",
        lambda place: run(place, "sql", "/sys/x", "-c", "SELECT 1"),
        "42501",
    ),
    Produced("encoding", "not UTF-8", _encoding),
    Produced("newer-version", "has format 99", _newer, "0A000"),
    Produced("zookeeper", "no session with ZooKeeper", _no_zookeeper),
    Produced(
        "configuration",
        "did you mean postgres.port?",
        lambda place: run(place, "server", "--data", "d", "--set", "postgres.prot=1"),
        code=2,
    ),
]


@pytest.mark.parametrize("one", ALONE, ids=lambda one: one.section)
def test_an_error_names_its_section(tmp_path: Path, one: Produced) -> None:
    done = one.make(tmp_path)
    assert done.returncode == one.code, done.stderr + done.stdout
    assert one.said in done.stderr
    assert one.sqlstate in done.stderr
    assert f"{PAGE}#{one.section}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    rule = 'authentication.rules=[{method="scram-sha-256", user="ann"}, {method="trust", network="loopback"}]'
    place = tmp_path_factory.mktemp("first") / "d"
    with closing(RunningServer(place, "--set", rule, "--set", "postgres.database=shop").ready()) as running:
        running.connect(user="admin", dbname="shop").execute("CREATE ROLE ann LOGIN PASSWORD 'right one'")
        yield running


@pytest.mark.parametrize(
    ("url", "section", "sqlstate"),
    [
        ("herdpy://ann:wrong@127.0.0.1:{}/shop", "password", "28P01"),
        ("herdpy://ann@127.0.0.1:{}/shop", "password", "28P01"),
        ("herdpy://bob@127.0.0.1:{}/shops", "no-such-database", "3D000"),
    ],
)
def test_what_a_server_refuses(
    server: RunningServer, tmp_path: Path, url: str, section: str, sqlstate: str
) -> None:
    for words in (("sql", url.format(server.port), "-c", "SELECT 1"), ("status", url.format(server.port))):
        done = run(tmp_path, *words)
        assert done.returncode == 1
        assert sqlstate in done.stderr, done.stderr
        assert f"{PAGE}#{section}" in done.stderr


@contextmanager
def _small_disk(place: Path) -> Iterator[None]:
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"this machine does not let root mount a tmpfs: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with _small_disk(tmp_path / "disk"):
        insert = "INSERT INTO t SELECT repeat(md5(g::text), 200) FROM generate_series(1, 4000) AS g(g)"
        script = f"CREATE TABLE t (a TEXT); {insert}; {insert}; {insert}"
        done = run(tmp_path, "sql", "./disk/d", "-c", script)
    assert done.returncode == 1
    assert "53100" in done.stderr, done.stderr
    assert f"{PAGE}#disk-full" in done.stderr


def test_the_oldest_python_is_the_one_of_the_page() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert f"`Requires-Python {needed}`" in TEXT


def test_every_section_is_there_and_is_produced_here() -> None:
    produced = {one.section for one in ALONE} | {"password", "no-such-database", "disk-full", "python"}
    assert set(SECTIONS) == produced
    assert {one.section for one in FIRST_ERRORS} == produced - {"python"}


def test_other_errors_name_no_section() -> None:
    for message, sqlstate in (
        ('relation "t" does not exist', "42P01"),
        ("syntax error at or near", "42601"),
        ("password is too weak", "22023"),
        ("aggregate functions are not allowed here", "42803"),
    ):
        assert page_of(message, sqlstate) is None
