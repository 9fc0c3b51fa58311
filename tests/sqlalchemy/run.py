"""Run a suite that SQLAlchemy or Alembic gives dialects, in a process of its own, and tell its counts.

    python tests/sqlalchemy/run.py dialect 2.1 directory          one run
    python tests/sqlalchemy/run.py dialect 2.0 cluster            on a cluster of three, started for it
    python tests/sqlalchemy/run.py --listed                       those of `make test`, side by side
    python tests/sqlalchemy/run.py --rest                         those of `make soak`: all others of the page

A run fails when a test does, or when docs/sqlalchemy.md has other counts; a listed one also when the page
has none. What stands behind the names goes to pytest: `run.py dialect 2.1 directory -k Identity`; counts are
not compared then. ``databases.py`` tells which there are.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "sqlalchemy.md"
SUITES = {"dialect": "suite", "alembic": "alembic_suite"}
LISTED = (("dialect", "2.1", "directory"), ("dialect", "2.0", "directory"), ("alembic", "2.1", "directory"))
"""The runs of `make test`."""
_ROW = re.compile(r"^\| (dialect|alembic) \| ([\d.]+) \| ([\w+]+) \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)
_AT_ONCE = 2
_COUNT = re.compile(r"(\d+) (passed|skipped|failed|errors?|xfailed|xpassed)\b")
_PATIENCE_S = 3600.0


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    name: str
    counts: dict[str, int]
    output: str
    status: int

    @property
    def line(self) -> str:
        """The counts, to be read."""
        told = ", ".join(f"{number} {what}" for what, number in self.counts.items())
        return f"{self.name}: {told or 'no tests ran'}"

    @property
    def cells(self) -> tuple[int, int]:
        """Passed and skipped, as the page's table has them."""
        return self.counts.get("passed", 0), self.counts.get("skipped", 0)


def run(suite: str, version: str, name: str, *more: str) -> Outcome:
    """Run one suite with one version of SQLAlchemy on a database of ``databases.py``."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from tests.sqlalchemy.databases import database

    with (
        tempfile.TemporaryDirectory(prefix="herdpy-sqlalchemy-") as scratch,
        database(name, Path(scratch)) as url,
    ):
        return _run(suite, version, name, url, *more)


def _run(suite: str, version: str, database: str, url: str, *more: str) -> Outcome:
    folder = HERE / SUITES[suite]
    paths = [ROOT, ROOT / "server", ROOT / "sql", *_beside(version)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, reversed(paths)))}
    command = [
        *(sys.executable, "-m", "pytest", "-c", "pytest.ini", "--rootdir", ".", "-p", "no:xdist", "-q"),
        *("--maxfail=20", "--dburi", url, f"test_{suite}_suite.py", *more),
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_PATIENCE_S,
        check=False,
    )
    output = done.stdout.decode(errors="replace")
    last = output.rstrip().rpartition("\n")[2]
    counts = {
        what.removesuffix("s") if what == "errors" else what: int(n) for n, what in _COUNT.findall(last)
    }
    return Outcome(f"{suite} suite, SQLAlchemy {version}, {database}", counts, output, done.returncode)


def _beside(version: str) -> list[Path]:
    """Where SQLAlchemy is that is not the environment's own."""
    if metadata.version("sqlalchemy").startswith(f"{version}."):
        return []
    other = Path(sys.prefix) / f"sqlalchemy-{version}"
    if not other.is_dir():
        sys.exit(f"{other} is not there: `make suites` installs it")
    return [other]


def told() -> dict[tuple[str, str, str], tuple[int, int]]:
    """Passed and skipped of each run, as the page says."""
    page = PAGE.read_text(encoding="utf-8")
    return {
        (suite, version, name): (_number(passed), _number(skipped))
        for suite, version, name, passed, skipped in _ROW.findall(page)
    }


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def problem(outcome: Outcome, wanted: tuple[int, int] | None, *, listed: bool = False) -> str | None:
    """What is wrong with a run, or None."""
    if outcome.status != 0:
        return outcome.output[-20_000:]
    if wanted is None:
        return "docs/sqlalchemy.md has no counts of it" if listed else None
    if outcome.cells != wanted:
        return f"docs/sqlalchemy.md says {wanted[0]:,} passed and {wanted[1]:,} skipped"
    return None


def main(arguments: list[str]) -> int:
    """Run what is asked for; 0 when all is as it should be."""
    page = told()
    more: list[str] = []
    if arguments == ["--listed"]:
        runs = list(LISTED)
    elif arguments == ["--rest"]:
        runs = [one for one in page if one not in LISTED]
    else:
        suite, version, name, *more = arguments
        runs = [(suite, version, name)]
    listed = arguments == ["--listed"]
    status = 0
    with ThreadPoolExecutor(len(runs) if listed else _AT_ONCE) as pool:
        for one, outcome in zip(runs, pool.map(lambda one: run(*one, *more), runs), strict=True):
            print(outcome.line, flush=True)
            wrong = problem(outcome, None if more else page.get(one), listed=listed)
            if wrong is not None:
                print(wrong, flush=True)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
