"""What the documented words install does what the pages say, in environments that have nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from herdpy.distribution import EXTRAS, NAME, install_line
from tests.install import journeys
from tests.install.environments import ROOT, Installed

HEAVY = {"duckdb", "grpc", "kazoo", "lmdb", "msgspec", "numpy", "pyarrow", "sqlglot", "typer", "uvloop"}
"""Modules that are megabytes, or the engine's: no program that only talks to servers loads them."""


def test_the_plain_name_runs_the_readme(plain: Installed, tmp_path: Path) -> None:
    journeys.run_readme(plain, tmp_path)


def test_a_program_that_only_talks_to_servers(
    server: Installed, client: Installed, dialects: Installed, tmp_path: Path
) -> None:
    seen = journeys.use_a_server(server, dialects, tmp_path, "sqlalchemy")
    assert seen["sqlalchemy"] == ["herdpy", "1.80"]
    assert not HEAVY & set(seen["loaded"])
    assert f"database itself: {install_line()} " in seen["herdpy:garden"]
    assert 'needs kazoo: pip install "herdpydb-client[zk]"' in seen["herdpy+zk://127.0.0.1:1/x?tablespace=a"]
    assert not (client.path / "bin" / "herdpy").exists()


@pytest.mark.parametrize("name", ["plain", "server", "client"])
def test_an_install_brings_what_the_page_names(name: str, request: pytest.FixtureRequest) -> None:
    installed: Installed = request.getfixturevalue(name)
    rows = rows_of_the_page()
    words = {"plain": NAME, "server": f"{NAME}[server]", "client": f"{NAME}-client"}[name]
    assert rows[words] == len(installed.packages())


def rows_of_the_page() -> dict[str, int]:
    """By requirement, the number of packages that docs/install.md says it brings."""
    page = (ROOT / "docs" / "install.md").read_text()
    found = re.findall(r"^\| `pip install \"?([\w\[\],-]+)\"?` \| (\d+) \|", page, re.MULTILINE)
    return {name: int(count) for name, count in found}


Lines = list[tuple[str, str | None]]


def lines(port: int) -> Lines:
    """Commands as they are typed, each with the extra that it needs; None: it needs none.

    Those that need none end otherwise: they do what they are for, or say that nothing listens there.
    """
    server = f"herdpy://127.0.0.1:{port}/x?connect_timeout=1"
    grpc = f"grpc://ann@127.0.0.1:{port}"
    zookeeper = f"--cluster zk://127.0.0.1:{port}/ledgers"
    return [
        ("version", None),
        ("sql garden -c SELECT", None),
        ("server --data data", "server"),
        ("init made --yes", "server"),
        ("doctor", "server"),
        (f"status {server}", None),
        (f"top {server}", None),
        ("changes garden --table plant", "changes"),
        ("log garden", None),
        ("info garden", None),
        ("backup garden --to repository", "backup"),
        ("restore repository restored", "backup"),
        ("spark export --url garden --table plant --to exported", "spark"),
        (f"tablespace ls {server}", None),
        (f"snapshot copy {server} copied", "server"),
        ("snapshot list published", "backup"),
        ("backups list repository", "backup"),
        (f"ledgers ls {zookeeper}", "bookkeeper"),
        (f"admin node {grpc}", "server"),
        ("dev status --dir cluster", "server"),
        ("drill list", "server"),
    ]


def more_lines(port: int) -> Lines:
    """The others, whose modules are those of commands above."""
    server = f"herdpy://127.0.0.1:{port}/x?connect_timeout=1"
    grpc = f"grpc://ann@127.0.0.1:{port}"
    zookeeper = f"--cluster zk://127.0.0.1:{port}/ledgers"
    admin = ("tablespaces", "ledgers", "snapshots", "load 7", "sessions", "cancel 7", "terminate 7")
    admin += ("checkpoint", "settings", "log-levels", "reload", "upgrade")
    ledgers = ("show 1", "cat 1", "copies 1", "bookies")
    ledgers += ("recover 1 --yes", "keep-replica t n --yes", "rm 1 --yes")
    backups = ("verify repository", "expire repository --keep-last 1", "key file")
    dev = ("up", "down", *(f"{name} server-1" for name in ("start", "stop", "kill", "pause", "resume")))
    tablespaces = ("create", "alter", "drop", "check")
    return [
        ("export garden plant plant.csv", None),
        ("import garden plant.csv --table other", None),
        ("check garden", None),
        ("checkpoint garden", None),
        (f"tablespace leader {server} name node", None),
        (f"tablespace hand-over {server} node", None),
        *((f"tablespace {one} {server} name", None) for one in tablespaces),
        ("snapshot publish garden --to published", "backup"),
        ("snapshot rescue replica rescued", None),
        *((f"backups {one}", "backup") for one in backups),
        *((f"ledgers {one} {zookeeper}", "bookkeeper") for one in ledgers),
        *((" ".join(["admin", *one.split()[:1], grpc, *one.split()[1:]]), "server") for one in admin),
        *((f"dev {one} --dir cluster", "server") for one in dev),
        *((f"drill {one}", "server") for one in ("kill-leader", "all", "judge plant.csv")),
    ]


def check(installed: Installed, place: Path, wanted: Lines) -> set[str]:
    """Run the commands: without what they need they end with 1 and one line of pip. The commands that ran."""
    found: dict[str, Any] = journeys.said_by_commands(installed, place, [line.split() for line, _ in wanted])
    for (line, extra), (status, said) in zip(wanted, found["said"], strict=True):
        assert "Traceback" not in said, (line, said)
        installs = re.findall(r"pip install [^\n]*?(?=\"? brings|$)", said, re.MULTILINE)
        if extra is None:
            assert not installs, (line, said)
        else:
            assert status == 1, (line, said)
            assert install_line(extra) in said, (line, said)
    return set(found["commands"])


@pytest.fixture
def garden(plain: Installed, tmp_path: Path) -> Path:
    """A directory with a database in it."""
    plain.run("herdpy", "sql", "garden", "-c", "CREATE TABLE plant (id INT)", cwd=tmp_path)
    return tmp_path


def test_a_command_without_its_extra_says_what_to_install(
    plain: Installed, garden: Path, unused_tcp_port: int
) -> None:
    check(plain, garden, lines(unused_tcp_port))


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_every_command_without_its_extra_says_what_to_install(
    plain: Installed, garden: Path, unused_tcp_port: int
) -> None:
    wanted = lines(unused_tcp_port) + more_lines(unused_tcp_port)
    commands = check(plain, garden, wanted)
    ran = {line for line, _ in wanted}
    others = {one for one in commands if not any(f"{line} ".startswith(f"{one} ") for line in ran)}
    assert others == {"drill NAME"}


def test_the_extras_of_modules_are_extras() -> None:
    page = (ROOT / "pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in page for extra in EXTRAS.values())
