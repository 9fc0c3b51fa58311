"""What the parts of the benchmark of backups share: rows, commands, and how long these take."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databases import TABLE, arrow_rows
from measure import Line

import herdpy

_CHUNK_ROWS = 200_000


@dataclass(frozen=True)
class BackupBed:
    """A directory for databases and repositories.

    Attributes:
        rows: of the database that is backed up.
        rounds: of what is measured in turn.
        seconds: of a run of pgbench.
    """

    directory: Path
    rows: int
    rounds: int
    seconds: int

    def filled(self, name: str) -> Path:
        """A closed database with the rows, and nothing in its log."""
        path = self.directory / name
        with herdpy.connect(f"herdpy:{path}", autocommit=True) as connection:
            connection.execute(TABLE)
            for first in range(0, self.rows, _CHUNK_ROWS):
                part = arrow_rows(first, min(_CHUNK_ROWS, self.rows - first))
                connection.cursor().adbc_ingest("t", part, mode="append")
            connection.execute("CHECKPOINT")
        return path

    def change(self, path: Path, share: int) -> None:
        """Change one of ``share`` rows, spread over the table."""
        with herdpy.connect(f"herdpy:{path}", autocommit=True) as connection:
            for sql in changes(self.rows, share):
                connection.execute(sql)

    def fresh(self, name: str) -> Path:
        """A path where nothing is."""
        path = self.directory / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        return path


def aimed(line: Line, aim: str, is_met: bool) -> Line:
    """The line with its aim, in words."""
    line.wanted, line.met = aim, is_met
    return line


def changes(rows: int, share: int) -> list[str]:
    """Statements of either database that change one of ``share`` rows."""
    return [
        f"UPDATE t SET a = a + 1 WHERE id >= {first} AND id < {first + _CHUNK_ROWS} AND id % {share} = 3"
        for first in range(0, rows, _CHUNK_ROWS)
    ]


def herdpy_command(*arguments: object) -> tuple[float, Any]:
    """How long a command of HerdPy took, in seconds, and its answer as JSON."""
    command = [sys.executable, "-m", "herdpy.cli", *map(str, arguments), "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return took_s, json.loads(done.stdout)


def command_s(*arguments: object) -> float:
    """How long another command took, in seconds."""
    began = time.perf_counter()
    subprocess.run([str(one) for one in arguments], check=True, capture_output=True)
    return time.perf_counter() - began


def stored_bytes(directory: Path) -> int:
    """Of all files of a directory."""
    return sum(one.stat().st_size for one in directory.rglob("*") if one.is_file())
