"""Suites of clients: a driver's own tests, run by pytest on PostgreSQL 15 and on HerdPy.

    sources -> an environment of the client's own -> pytest with ``inside/outcomes_plugin`` -> outcomes, twice

``psycopg_suite`` and ``asyncpg_suite`` say what is particular to each.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from herdpy.testing.process import PortReservation
from tests.suites import cases
from tests.suites.cases import Outcomes
from tests.suites.sources import KEPT
from tests.suites.stage import postgres
from tests.support.server_process import RunningServer

HERE = Path(__file__).parent
_TEST_LIMIT_S = 60
_LIMIT_S = 3600.0
_POSTGRES = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "max_prepared_transactions": "10",
}
_DONE = (0, 1)
"""What pytest returns when all tests ran, and when some failed."""


@dataclass(frozen=True)
class Client:
    """A driver's suite.

    Attributes:
        name: the name of the suite.
        install: which folders of the sources are installed into its environment.
        options: what pytest is given.
        settings: the environment's variables that name the server, with ``{host}`` and ``{port}``.
    """

    name: str
    install: tuple[str, ...]
    options: tuple[str, ...]
    settings: Mapping[str, str]

    def play(self, folder: Path, files: Sequence[str], found: Path, *, again: bool) -> None:
        """Run files of tests on both servers, and leave the outcomes of each file in `found`."""
        python = self.environment(folder)
        paths = self._paths(folder, files)
        theirs = _last(found) if again else _by_file(self._on_postgres(python, folder, paths))
        ours = _by_file(self._on_herdpy(python, folder, paths))
        for name in theirs.keys() & ours.keys() if again else theirs:
            cases.write(found, name, theirs[name], ours.get(name, {}))
            print(cases.line(name, cases.found(found, [name])[name]), file=sys.stderr, flush=True)

    def environment(self, folder: Path) -> Path:
        """The Python of its environment, which is made where it is not there or is to have other packages."""
        place, wanted = KEPT / self.name, HERE / f"requirements-{self.name}.txt"
        stamp, contents = place / ".made-of", f"{folder}\n{wanted.read_text()}"
        python = place / "bin" / "python"
        if not stamp.exists() or stamp.read_text() != contents:
            uv = Path(sys.executable).with_name("uv")
            pip = [uv, "pip", "install", "--quiet", "--python", python]
            subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, place], check=True)
            subprocess.run([*pip, "-r", wanted], check=True)
            if self.install:
                subprocess.run([*pip, "--no-deps", *(folder / name for name in self.install)], check=True)
            stamp.write_text(contents)
        return python

    def _paths(self, folder: Path, files: Sequence[str]) -> list[str]:
        """The paths of files by the names that `part_of` gives them; all tests for none."""
        paths = [f"tests/{name.replace('.', '/')}.py" for name in files]
        for path in paths:
            if not (folder / path).exists():
                raise SystemExit(f"{self.name} has no {path}")
        return paths or ["tests"]

    def _on_postgres(self, python: Path, folder: Path, paths: Sequence[str]) -> Outcomes:
        with (
            contextlib.closing(PortReservation()) as port,
            postgres(port=str(port.port), **_POSTGRES),
        ):
            return self._run(python, folder, paths, port.address, port.port)

    def _on_herdpy(self, python: Path, folder: Path, paths: Sequence[str]) -> Outcomes:
        with (
            tempfile.TemporaryDirectory(prefix="herdpy-clients-") as scratch,
            contextlib.ExitStack() as opened,
        ):
            server = RunningServer(Path(scratch) / "data")
            opened.callback(server.close)
            return self._run(python, folder, paths, "127.0.0.1", server.ready().port)

    def _run(self, python: Path, folder: Path, paths: Sequence[str], host: str, port: int) -> Outcomes:
        """Run files of tests on a server: each test's outcome."""
        with tempfile.TemporaryDirectory(prefix="herdpy-clients-") as scratch:
            written, log = Path(scratch) / "outcomes.json", Path(scratch) / "log"
            command = [
                *(python.with_name("pytest"), "-q", "--no-header", "--tb=short", "-p", "outcomes_plugin"),
                *("--rootdir", folder, "-o", f"cache_dir={scratch}/cache", "--timeout", _TEST_LIMIT_S),
                *(*self.options, *paths),
            ]
            settings = {name: value.format(host=host, port=port) for name, value in self.settings.items()}
            environment = {
                **{name: value for name, value in os.environ.items() if not name.startswith("PG")},
                **settings,
                "PYTHONPATH": str(HERE / "inside"),
                "HERDPY_SUITE_OUTCOMES": str(written),
            }
            with log.open("wb") as output:
                done = subprocess.run(
                    list(map(str, command)),
                    cwd=folder,
                    env=environment,
                    stdout=output,
                    stderr=output,
                    timeout=_LIMIT_S,
                    check=False,
                )
            if done.returncode not in _DONE or not written.exists():
                raise SystemExit(f"{self.name} did not run:\n{log.read_text(errors='replace')[-5000:]}")
            return dict(json.loads(written.read_text()))


def part_of(test: str) -> str:
    """The file of a test, without its end, with dots for folders: ``types.test_enum``."""
    path = test.partition("::")[0].removeprefix("tests/").removesuffix(".py")
    return path.replace("/", ".")


def _by_file(outcomes: Outcomes) -> dict[str, dict[str, tuple[str, str]]]:
    files: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for test, outcome in outcomes.items():
        files[part_of(test)][test.partition("::")[2]] = outcome
    return files


def _last(found: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """PostgreSQL's outcomes of the last run."""
    return {path.stem: json.loads(path.read_text())["theirs"] for path in found.glob("*.json")}
