"""What an install of the driver brings: no more packages than docs/drivers.md names, and they are enough.

uv.lock says what comes, without a network. That it is enough is seen in a process that finds nothing else of
what is installed here.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from herdpy.distribution import NAME

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "drivers.md"
EXTRAS = ("", "remote", "zk", "sqlalchemy")
HEAVY = {"duckdb", "grpcio", "lmdb", "msgspec", "numpy", "pandas", "protobuf", "pyarrow", "sqlglot", "uvloop"}
"""Packages that are megabytes, or the engine's: no driver needs them."""
_ROW = re.compile(r'^\| `pip install "?herdpydb(?:\[(\w+)\])?"?` \| ([^|]*) \|', re.MULTILINE)

ALONE = """
import importlib.abc, sys

class NoneOfThese(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

missing = set(sys.argv[1].split(","))
sys.meta_path.insert(0, NoneOfThese())
import herdpy, herdpy.aio
"""


def told() -> dict[str, set[str]]:
    """The packages that each install brings, as the page says: those of its row, and of the plain name."""
    rows = {extra: set(re.findall(r"`([\w-]+)`", cell)) for extra, cell in _ROW.findall(PAGE.read_text())}
    assert "remote" in rows["zk"]
    rows["zk"] = rows["zk"] - {"remote"} | rows["remote"]
    return {extra: packages | rows[""] for extra, packages in rows.items()}


def brought(extra: str) -> set[str]:
    """The packages that come with an extra on Linux, as uv.lock has them."""
    uv = Path(sys.prefix) / "bin" / "uv"
    command = [str(uv), "export", "--frozen", "--offline", "--no-dev", "--no-emit-project", "--no-hashes"]
    command += ["--no-header", "--no-annotate", "--quiet", *(["--extra", extra] if extra else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    lines = [line for line in done.stdout.splitlines() if "'win32'" not in line]
    return {line.partition("==")[0] for line in lines}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_install_brings_what_the_page_names(extra):
    packages = brought(extra)
    assert packages == told()[extra]
    assert not packages & HEAVY


def normal(package: str) -> str:
    """A package's name as indexes have it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def run_with(extra: str, code: str, *arguments: str) -> str:
    """What ``code`` prints where only the packages of an extra are found."""
    packages = told()[extra]
    owned = metadata.packages_distributions().items()
    missing = {top for top, owners in owned if not {NAME, *packages} & set(map(normal, owners))}
    assert {"pyarrow", "duckdb", "lmdb", "grpc"} <= missing
    done = subprocess.run(
        [sys.executable, "-c", ALONE + code, ",".join(missing), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_driver_alone_imports_and_says_what_to_install():
    code = """
import herdpy.cli.app
try: herdpy.connect("herdpy://127.0.0.1:1/herdpy")
except herdpy.InterfaceError as error: print(error)
"""
    assert 'pip install "herdpydb[remote]"' in run_with("", code)


@pytest.mark.parametrize(("extra", "scheme"), [("remote", "herdpy"), ("zk", "herdpy+zk")])
def test_what_comes_is_enough_to_look_for_a_server(extra, scheme):
    code = """
try: herdpy.connect(sys.argv[2], connect_timeout=1)
except herdpy.OperationalError as error: print(error.sqlstate)
"""
    with socket.socket() as nobody:  # bound, and never listening
        nobody.bind(("127.0.0.1", 0))
        url = f"{scheme}://127.0.0.1:{nobody.getsockname()[1]}/herdpy"
        assert run_with(extra, code, url) == "08001\n"
