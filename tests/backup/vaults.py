"""A repository that tests use by HerdPy's commands alone, as people do.

Backups are made by processes of their own, beside the one that has the database open; what reads the
repository runs in this process, which is quicker.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import herdpy
from herdpy.backup.checking import verify
from herdpy.backup.expiry import Choice, expire
from herdpy.backup.manifest import read_catalog
from herdpy.backup.policy import KeepPolicy
from herdpy.backup.repository import Repository, read_key
from herdpy.cli.app import app
from herdpy.log.lsn import LSN
from herdpy.testing.process import spawn
from herdpy_server.store import Store
from tests.backup.histories import History, Moment

ZONES = (timezone(timedelta(0)), timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-9)))
PATIENCE_S = 120.0
_DIES = -9


def command_here(*arguments: object, code: int = 0) -> str:
    """As ``herdpy_command``, in this process."""
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, f"{arguments} ended with {done.exit_code}:\n{done.stdout}{done.stderr}"
    return done.stderr if code else done.stdout


def herdpy_command(*arguments: object, code: int = 0) -> str:
    """What a command prints on standard output, or on standard error when it is to fail."""
    done = subprocess.run(
        [sys.executable, "-m", "herdpy.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == code, f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stderr if code else done.stdout


@dataclass
class Vault:
    """A repository, and what of one database is there.

    Attributes:
        source: the database's directory or URL.
        key_file: of the key, if it is encrypted.
        archived: whether the database archives its log, so that a backup leads to every later position.
        manifests: what the command said of each that was made.
        killed: how many backups were killed before they were whole.
    """

    source: object
    url: str
    chance: random.Random
    key_file: Path | None = None
    archived: bool = False
    manifests: list[dict[str, Any]] = field(default_factory=list)
    killed: int = 0

    @property
    def more(self) -> tuple[object, ...]:
        """Arguments of every command."""
        return () if self.key_file is None else ("--key-file", self.key_file)

    def back_up(self, *arguments: object) -> dict[str, Any]:
        """Make a backup."""
        said = herdpy_command("backup", self.source, "--to", self.url, "--json", *arguments, *self.more)
        self.manifests.append(json.loads(said))
        return self.manifests[-1]

    def back_up_beside(self, work: Callable[[], object], *arguments: object) -> None:
        """Make a backup while the database is written to."""
        with self._begun(arguments) as process, ThreadPoolExecutor(1) as thread:
            assert process.stdout is not None
            said = thread.submit(process.stdout.read)
            while not said.done():
                work()
            assert process.wait(PATIENCE_S) == 0
            self.manifests.append(json.loads(said.result()))

    def _begun(self, arguments: tuple[object, ...]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "herdpy.cli", "backup", str(self.source), "--to", self.url, "--json"]
        return spawn([*command, *map(str, (*arguments, *self.more))], stdout=subprocess.PIPE)

    def back_up_and_kill(self, *arguments: object) -> None:
        """Begin a backup, and kill it -9 at a random moment; it may be whole by then."""
        process = self._begun(arguments)
        try:
            process.wait(0.3 + self.chance.random() * 0.7)
        except subprocess.TimeoutExpired:
            process.kill()
        assert process.stdout is not None
        with process.stdout:
            said = process.stdout.read()
        if process.wait(PATIENCE_S) == _DIES:
            self.killed += 1
        else:
            self.manifests.append(json.loads(said))

    def restore(self, directory: Path, *arguments: object, code: int = 0) -> str:
        """Restore into a directory; what the command prints."""
        json_too = () if code else ("--json",)
        return command_here("restore", self.url, directory, *json_too, *arguments, *self.more, code=code)

    def has(self, first: LSN, last: LSN, *, after_image: bool = False) -> bool:
        """Whether one backup leads to these positions: between backups the log may be gone."""
        return any(
            (LSN.parse(one["lsn"]) < first if after_image else LSN.parse(one["lsn"]) <= first)
            and (self.archived or last <= LSN.parse(one["end"]))
            for one in self.manifests
        )

    @property
    def repository(self) -> Repository:
        """The repository itself."""
        return Repository.open(self.url, None if self.key_file is None else read_key(self.key_file))

    def verify(self) -> None:
        """Every part of it is there, and is what was written."""
        assert [one for one in verify(self.repository).findings if one.is_problem] == []

    def expire(self, last: int) -> None:
        """Keep the newest backups, and all that they need."""
        if not self.manifests:
            return
        expire(self.repository, Choice(KeepPolicy(last=last)))
        there = {one.id for one in read_catalog(self.repository).backups}
        self.manifests = [one for one in self.manifests if one["id"] in there]


def check_restores(
    vault: Vault, history: History, directory: Path, moments: list[Moment], end: Moment
) -> None:
    """Restore to the end, and to each of these moments in a random way; every difference fails."""
    with ExitStack() as stack:
        wrong: list[str] = []
        for number, (moment, arguments) in enumerate(
            [(end, []), *((one, target(vault, history, one)) for one in moments)]
        ):
            target_directory = directory / f"restored-{number}"
            vault.restore(target_directory, *arguments)
            roles = roles_of(target_directory) if history.roles else None
            connection = stack.enter_context(herdpy.connect(f"herdpy:{target_directory}", autocommit=True))
            wrong += [f"{arguments}: {line}" for line in history.wrong(connection, moment, roles)]
    assert not wrong, "\n".join(wrong)


def roles_of(directory: Path) -> dict[str, str]:
    """Names by key of the roles that a cluster's database has, in a directory that nobody has open."""
    store = Store.open(directory / "store")
    try:
        found = [json.loads(one) for one in (store.catalog.roles or {}).values()]
    finally:
        store.close()
    return {one["key"]: one["name"] for one in found}


def target(vault: Vault, history: History, moment: Moment) -> list[object]:
    """Arguments that name the moment: its position, a time after it, or that it is before the next commit."""
    following, chance = history.after(moment), vault.chance
    ways: list[list[object]] = [["--to-lsn", moment.lsn]]
    if following is not None and vault.has(moment.lsn, following.lsn):
        if following.name:
            ways.append(["--before-commit", chance.choice([following.name, following.lsn])])
        # An image of the moment itself may be newer than the time.
        is_after = vault.has(moment.lsn, following.lsn, after_image=True)
        if is_after and moment.after_us < following.before_us:
            between_us = chance.randrange(moment.after_us, following.before_us)
            ways.append(["--to-time", moment_text(between_us, chance.choice(ZONES))])
    return chance.choice(ways)


def moment_text(time_us: int, zone: timezone) -> str:
    """A time as a person writes it, in a zone."""
    found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    return found.astimezone(zone).isoformat()


def await_true(condition: Any, what: str) -> None:
    """Return when the condition holds; fails when it does not for long."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"{what} did not come"
        time.sleep(0.05)
