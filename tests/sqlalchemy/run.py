"""Run a suite that SQLAlchemy or Alembic gives dialects, in a process of its own, and tell its counts.

    python tests/sqlalchemy/run.py dialect 2.1 directory          one run
    python tests/sqlalchemy/run.py --listed                       those of `make test`, side by side

A run fails when a test does, or when docs/sqlalchemy.md has other counts; a listed one also when the page
has none. What stands behind the names goes to pytest: `run.py dialect 2.1 directory -k Identity`; counts are
not compared then.
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
LISTED = (("dialect", "2.1", "directory"), ("dialect", "2.0", "server"), ("alembic", "2.1", "directory"))
"""The runs of `make test`."""
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


def run(suite: str, version: str, database: str, *more: str) -> Outcome:
    """Run one suite with one version of SQLAlchemy on a "directory" or a "server"."""
    with tempfile.TemporaryDirectory(prefix="herdpy-sqlalchemy-") as scratch:
        if database == "directory":
            return _run(suite, version, database, f"herdpy:///{scratch}/db", *more)
        if str(ROOT) not in sys.path:
            sys.path.insert(0, str(ROOT))
        from tests.support.server_process import RunningServer

        running = RunningServer(Path(scratch) / "data").ready()
        try:
            return _run(suite, version, database, f"herdpy://127.0.0.1:{running.port}/herdpy", *more)
        finally:
            running.close()


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


def told(suite: str, version: str, database: str) -> tuple[int, int] | None:
    """Passed and skipped, as the page says."""
    row = rf"^\| {suite} \| {re.escape(version)} \| {database} \| ([\d,]+) \| ([\d,]+) \|"
    found = re.search(row, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return None if found is None else (_number(found[1]), _number(found[2]))


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
    listed = arguments == ["--listed"]
    if listed:
        runs = [(one, told(*one)) for one in LISTED]
        with ThreadPoolExecutor(len(runs)) as pool:
            outcomes = list(pool.map(lambda one: run(*one[0]), runs))
    else:
        suite, version, database, *more = arguments
        runs = [((suite, version, database), None if more else told(suite, version, database))]
        outcomes = [run(suite, version, database, *more)]
    status = 0
    for (_, wanted), outcome in zip(runs, outcomes, strict=True):
        print(outcome.line)
        wrong = problem(outcome, wanted, listed=listed)
        if wrong is not None:
            print(wrong)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
