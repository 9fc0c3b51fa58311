"""Run ibis' own suite of backends by its PostgreSQL backend, on HerdPy and on PostgreSQL, and count.

    python tests/ibis/run.py                      both; compared with the ratchet file and the page
    python tests/ibis/run.py herdpy -k window     one database; what stands behind it goes to pytest
    python tests/ibis/run.py --write              both; passed.txt is written, the page's rows are printed

The suite is the one in the package of ibis that ``.venv/ibis`` has (`make ibis` makes that). ``passed.txt``
has how many cases of each test pass on HerdPy. A run fails when fewer do, and when more do, so that the
numbers grow; and when docs/ibis.md has other counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = Path(sys.prefix) / "ibis"
#: How many cases of each test pass on HerdPy, a test a line.
PASSED = Path(__file__).with_name("passed.txt")
PAGE = ROOT / "docs" / "ibis.md"
DATABASES = ("herdpy", "postgresql")
#: As ibis has them: a test that is to fail and passes is a failure, one without parameters an error.
_SETTINGS = ("xfail_strict=true", "empty_parameter_set_mark=fail_at_collect", "addopts=")
_PATIENCE_S = 3600.0


@contextlib.contextmanager
def database(name: str) -> Iterator[dict[str, str]]:
    """A new, empty database: where the suite's settings say it is."""
    sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []
    if name == "herdpy":
        from tests.support.server_process import RunningServer

        with tempfile.TemporaryDirectory(prefix="herdpy-ibis-") as scratch:
            running = RunningServer(Path(scratch) / "data").ready()
            try:
                yield _settings("127.0.0.1", running.port, "postgres", "herdpy")
            finally:
                running.close()
    elif name == "postgresql":
        import psycopg

        from tests.support.postgres import run_server

        for conninfo in run_server():
            given = psycopg.conninfo.conninfo_to_dict(conninfo)
            yield _settings(str(given["host"]), int(given.get("port") or 5432), "herdpy", "postgres")
    else:
        raise SystemExit(f"a database is one of {', '.join(DATABASES)}, not {name}")


def _settings(host: str, port: int, user: str, name: str) -> dict[str, str]:
    values = {"HOST": host, "PORT": str(port), "USER": user, "PASSWORD": "none", "DATABASE": name}
    return {f"IBIS_TEST_POSTGRES_{key}": value for key, value in values.items()}


def outcomes(name: str, *more: str) -> dict[str, str]:
    """Run the suite on one database: each test's outcome by its id."""
    packages = next(ENVIRONMENT.glob("lib/python*/site-packages"), None)
    if packages is None:
        raise SystemExit(f"{ENVIRONMENT} is not there: `make ibis` makes it")
    with database(name) as settings, tempfile.TemporaryDirectory(prefix="herdpy-ibis-") as scratch:
        found = Path(scratch) / "outcomes.json"
        command = [
            *(
                ENVIRONMENT / "bin" / "python",
                "-m",
                "pytest",
                "-p",
                "tests.ibis.suite_plugin",
            ),
            *("-c", os.devnull, "--rootdir", packages, "-q", "--tb=short", "-W", "ignore", "-m", "postgres"),
            *(part for setting in _SETTINGS for part in ("-o", setting)),
            *("-p", "no:cacheprovider", "--timeout", "120"),
            *(
                packages / "ibis" / "backends" / "tests",
                packages / "ibis" / "backends" / "postgres" / "tests",
            ),
            *more,
        ]
        environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT), "HERDPY_IBIS_OUTCOMES": str(found)}
        done = subprocess.run(
            list(map(str, command)),
            cwd=scratch,
            env=environment,
            stdout=None if more else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE_S,
            check=False,
        )
        if not found.exists():
            raise SystemExit(
                f"no outcomes, status {done.returncode}:\n{(done.stdout or b'').decode()[-5000:]}"
            )
        read = json.loads(found.read_text())
    for refused in read["refused"]:
        print(f"{name} refuses: {refused.strip()}", flush=True)
    if log := os.environ.get("HERDPY_IBIS_LOG"):
        Path(f"{log}-{name}.json").write_text(json.dumps(read, indent=1))
        Path(f"{log}-{name}.txt").write_bytes(done.stdout or b"")
    return dict(read["outcomes"])


def row(name: str, found: dict[str, str]) -> str:
    """The counts of one database, as the page has them."""
    counts = Counter(found.values())
    failed = counts["failed"] + counts["error"] + counts["xpassed"]
    cells = (counts["passed"], counts["xfailed"], failed, counts["skipped"])
    return f"| {name} | {' | '.join(f'{count:,}' for count in cells)} |"


def passed(found: dict[str, str]) -> Counter[str]:
    """How many cases of each test passed."""
    return Counter(case.partition("[")[0] for case, outcome in found.items() if outcome == "passed")


def listed() -> Counter[str]:
    """The same, as passed.txt has it."""
    lines = (line.split() for line in PASSED.read_text().splitlines())
    return Counter({test: int(count) for count, test in lines})


def problems(found: dict[str, dict[str, str]]) -> list[str]:
    """What differs from the list of what passes, and from the page."""
    before, now = listed(), passed(found["herdpy"])
    said = [f"{test}: {now[test]} cases pass, {before[test]} did" for test in sorted(before - now)]
    said += [f"{test}: {now[test]} cases pass, set passed.txt to that" for test in sorted(now - before)]
    page = PAGE.read_text().splitlines()
    return said + [
        f"docs/ibis.md does not have: {line}"
        for name in found
        if (line := row(name, found[name])) not in page
    ]


def main(arguments: list[str]) -> int:
    """Run what is named; 0 when all is as it should be."""
    if arguments and arguments[0] in DATABASES:
        print(row(arguments[0], outcomes(*arguments)))
        return 0
    found = {name: outcomes(name) for name in DATABASES}
    for name in DATABASES:
        print(row(name, found[name]))
    behind = passed(found["postgresql"]) - passed(found["herdpy"])
    print(f"{behind.total():,} cases pass on PostgreSQL and not on HerdPy")
    if arguments == ["--write"]:
        now = passed(found["herdpy"])
        PASSED.write_text("".join(f"{now[test]} {test}\n" for test in sorted(now)))
        return 0
    wrong = problems(found)
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
