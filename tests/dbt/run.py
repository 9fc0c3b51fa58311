"""Run dbt's test suite for adapters in dbt's own environment, on a server that is started for it.

    python tests/dbt/run.py                     all of it
    python tests/dbt/run.py -k snapshot         what stands behind goes to pytest, and no counts are compared

It fails when a test does, or when docs/dbt.md has other counts. `suite/selection.py` says what is run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "dbt.md"
ENVIRONMENT = Path(sys.prefix) / "dbt"
"""Where `make` installs dbt, the suite and the adapter."""
ROLES = ("dbt_test_user_1", "dbt_test_user_2", "dbt_test_user_3")
"""Roles that the suite's tests of grants grant to."""
_COUNT = re.compile(r"(\d+) (passed|skipped|failed|errors?|xfailed|xpassed)\b")
_PATIENCE_S = 7000.0


def page_counts(page: str) -> dict[str, int] | None:
    """The counts that the page has, if any."""
    found = re.search(r"([\d,]+) tests pass, (\d+) are skipped", page)
    if found is None:
        return None
    return {"passed": int(found[1].replace(",", "")), "skipped": int(found[2])}


def counted(output: str) -> dict[str, int]:
    """The counts of pytest's last line."""
    last = output.rstrip().rpartition("\n")[2]
    return {what.removesuffix("s") if what == "errors" else what: int(n) for n, what in _COUNT.findall(last)}


def run(port: int, scratch: Path, *more: str) -> tuple[int, str]:
    """The exit status of pytest and what it printed; the server is one of 127.0.0.1."""
    names = {f"DBT_TEST_USER_{number}": role for number, role in enumerate(ROLES, 1)}
    done = subprocess.run(
        [
            *(ENVIRONMENT / "bin" / "python", "-m", "pytest", "-c", HERE / "suite" / "pytest.ini", "-q"),
            *("--rootdir", scratch, "--basetemp", scratch / "pytest", HERE / "suite", *more),
        ],
        cwd=scratch,  # where dbt writes logs
        env={**os.environ, **names, "HERDPY_PORT": str(port), "DO_NOT_TRACK": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout


def main(more: list[str]) -> int:
    """Run it; 0 when all is as it should be."""
    if not ENVIRONMENT.is_dir():
        sys.exit(f"{ENVIRONMENT} is not there: `make dbt` installs it")
    sys.path.insert(0, str(ROOT))
    from tests.support.server_process import RunningServer

    with tempfile.TemporaryDirectory(prefix="herdpy-dbt-") as scratch:
        server = RunningServer(Path(scratch) / "data").ready()
        try:
            connection = server.connect()
            for role in ROLES:
                connection.execute(f"CREATE ROLE {role}")
            status, output = run(server.port, Path(scratch), *more)
        finally:
            server.close()
    counts = counted(output)
    print(f"dbt's test suite: {', '.join(f'{n} {what}' for what, n in counts.items()) or 'no tests ran'}")
    if status != 0:
        print(output[-40_000:])
        return 1
    wanted = page_counts(PAGE.read_text(encoding="utf-8"))
    given = {what: counts.get(what, 0) for what in ("passed", "skipped")}
    if not more and wanted not in (None, given):
        print(f"{PAGE.name} has other counts: {wanted}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
