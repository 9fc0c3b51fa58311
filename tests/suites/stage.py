"""PostgreSQL and HerdPy side by side, with a database of its own on each for every script."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

from tests.suites.regress import LIMIT_S, Judged, Play, Side, Suite
from tests.suites.wire import Wire
from tests.support.postgres import find_server, run_server
from tests.support.server_process import RunningServer

DATABASE = "regression"
_TEMPLATE = "regress_template"
_SETTINGS = "-c timezone=PST8PDT"
"""What pg_regress sets and HerdPy has, too."""
_AHEAD = 1
"""How many servers start while a script is played."""


class Stage:
    """Plays scripts: `scripts` in their order, each on databases that have what it depends on."""

    def __init__(self, suite: Suite, limit_s: float = LIMIT_S) -> None:
        self._suite = suite
        self._limit_s = limit_s
        self._open = contextlib.ExitStack()
        self._started: deque[RunningServer] = deque()

    def __enter__(self) -> Stage:
        with contextlib.ExitStack() as opened:
            self._scratch = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="herdpy-regress-")))
            self._scratch.chmod(0o755)
            (self._scratch / "results").mkdir()
            (self._scratch / "results").chmod(0o777)
            self._postgres = psycopg.conninfo.conninfo_to_dict(opened.enter_context(postgres()))
            opened.callback(self._close_started)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def play(self, scripts: Sequence[str]) -> Iterator[list[Judged]]:
        """Play scripts one after the other; what became of each one's statements."""
        setup = self._set_up()
        if "test_setup" in scripts:
            yield setup
        rest = [name for name in scripts if name != "test_setup"]
        for number, name in enumerate(rest):
            while len(self._started) <= min(_AHEAD, len(rest) - number - 1):
                self._started.append(self._launch())
            with contextlib.ExitStack() as opened:
                theirs, ours = self._sides(opened, self._started.popleft())
                for earlier in self._suite.before(name):
                    Play(earlier, self._suite.text(earlier), theirs, ours).run()
                yield Play(name, self._suite.text(name), theirs, ours).run()

    def _set_up(self) -> list[Judged]:
        """Make the databases that all scripts begin with; what became of test_setup's statements."""
        self._data = self._scratch / "template"
        with contextlib.ExitStack() as opened:
            self._ask_postgres(f"CREATE DATABASE {_TEMPLATE}", f"CREATE DATABASE {DATABASE}")
            theirs, ours = self._sides(opened, server := RunningServer(self._data), fresh=True)
            judged = Play("test_setup", self._suite.text("test_setup"), theirs, ours).run()
            for side in (theirs, ours):
                side.wire.close()
            server.stop()
        self._ask_postgres(f"DROP DATABASE {_TEMPLATE}", f"ALTER DATABASE {DATABASE} RENAME TO {_TEMPLATE}")
        return judged

    def _sides(
        self, opened: contextlib.ExitStack, server: RunningServer, *, fresh: bool = False
    ) -> tuple[Side, Side]:
        """Sessions of the superuser with a database on PostgreSQL and one on a server of HerdPy's."""
        if not fresh:
            opened.callback(shutil.rmtree, server.data)
        opened.callback(server.close)
        if not fresh:
            self._ask_postgres(
                f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)",
                f"CREATE DATABASE {DATABASE} TEMPLATE {_TEMPLATE}",
            )
        server.ready()
        common = {"dbname": DATABASE, "user": "postgres", "options": _SETTINGS, "connect_timeout": "30"}
        places = ({"host": str(self._postgres["host"])}, {"host": "127.0.0.1", "port": str(server.port)})
        wires = [Wire({**common, **place}, self._limit_s) for place in places]
        for wire in wires:
            opened.callback(wire.close)
        wires[1].warm_up()
        theirs, ours = (Side(wire, self._environment()) for wire in wires)
        return theirs, ours

    def _environment(self) -> dict[str, str]:
        """What \\getenv finds, as pg_regress sets it."""
        binaries = find_server()
        return {
            "PG_ABS_SRCDIR": str(self._suite.folder),
            "PG_ABS_BUILDDIR": str(self._scratch),
            "PG_LIBDIR": str(binaries.parent / "lib") if binaries else "",
            "PG_DLSUFFIX": ".so",
        }

    def _launch(self) -> RunningServer:
        """Start a server on a copy of the template."""
        data = Path(tempfile.mkdtemp(dir=self._scratch)) / "data"
        shutil.copytree(self._data, data)
        return RunningServer(data)

    def _close_started(self) -> None:
        while self._started:
            self._started.popleft().close()

    def _ask_postgres(self, *statements: str) -> None:
        with psycopg.connect(
            host=str(self._postgres["host"]), user="postgres", dbname="postgres", autocommit=True
        ) as connection:
            for statement in statements:
                connection.execute(statement)


@contextlib.contextmanager
def postgres(**settings: str) -> Iterator[str]:
    """A server whose first superuser is called postgres, as HerdPy's is."""
    for conninfo in run_server(**settings):
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("CREATE ROLE renamer SUPERUSER LOGIN")
        with psycopg.connect(conninfo, user="renamer", autocommit=True) as connection:
            connection.execute("ALTER ROLE herdpy RENAME TO postgres")
        yield conninfo
