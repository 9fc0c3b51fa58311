"""``herdpy restore``: what it prints, what it refuses, and that it goes on after kill -9."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from herdpy.backup.manifest import backup_directory
from herdpy.backup.repository import Repository, new_key_file, read_key
from herdpy.cli.app import app
from tests.backup.restore_histories import BackupMaker, History, commit_times, dump_of, repack, run_history

FIRST_US = 1_760_000_000_000_000


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    found = run_history(tmp_path_factory.mktemp("origin") / "db", 2)
    commit_times(found, FIRST_US, 1_000_000, same=1)
    repack(found, 2)
    return found


@pytest.fixture
def maker(tmp_path: Path, history: History) -> BackupMaker:
    made = BackupMaker(Repository.create(str(tmp_path / "repo")), history, tmp_path)
    for at in (4, 9):
        made.back_up(history.entries[at].lsn, history.entries[-1].lsn)
    return made


def run(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["restore", *map(str, arguments)])
    assert done.exit_code == code, f"{done.stdout}\n{done.stderr}\n{done.exception!r}"
    return done


def test_it_restores_and_says_up_to_where(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    said = run(tmp_path / "repo", tmp_path / "db").stdout
    assert f"as of {history.entries[-1].lsn}, last commit at 2025-10-09 08:53:44" in said
    assert dump_of(tmp_path / "db") == history.dumps[-1]
    lsn = history.entries[12].lsn
    report = json.loads(run(tmp_path / "repo", tmp_path / "two", "--to-lsn", lsn, "--json").stdout)
    assert report["parent_log_id"] == maker.log_id
    assert dump_of(tmp_path / "two") == history.dumps[history.count_at(lsn)]


def test_a_dry_run_says_what_would_come(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    facts: dict[str, Any] = json.loads(run(tmp_path / "repo", tmp_path / "db", "--dry-run", "--json").stdout)
    assert not (tmp_path / "db").exists()
    assert facts["lsn"] == str(history.entries[-1].lsn)
    assert facts["backup_lsn"] == str(history.entries[9].lsn)
    assert facts["parts"] == len(facts["part_backups"]) == 2
    assert 0 < facts["part_bytes"] < facts["image_bytes"]
    assert facts["log_segments"] > 0
    assert "part_bytes" in run(tmp_path / "repo", tmp_path / "db", "--dry-run").stdout
    maker.repository.delete(f"{backup_directory(maker.log_id, facts['backup'])}/pages-0")
    again = run(tmp_path / "repo", tmp_path / "db", "--dry-run")
    assert "it is not there" in again.stderr
    assert facts["backup"] not in again.stdout


def test_times_without_a_zone_are_of_the_machine(
    maker: BackupMaker, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        done = run(tmp_path / "repo", tmp_path / "db", "--to-time", "2025-10-09 14:23:35.5")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "zone, +05:30: 2025-10-09 08:53:35.500000+00:00" in done.stderr
    assert dump_of(tmp_path / "db") == history.dumps[16]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--to-lsn", "1:1", "--to-time", "2026-01-01T00:00"], 2, "exclude each other"),
        (["--to-lsn", "ten"], 2, "not a log position"),
        (["--to-time", "tomorrow at ten"], 2, "is no time"),
        (["--to-lsn", "999:1"], 1, "beyond what is archived"),
        (["--before-commit", "unknown"], 1, "no commit 'unknown' is archived"),
        (["--tablespace", "other"], 1, "no complete backup of tablespace other"),
        (["--log", "00"], 1, "no complete backup of log 00"),
        (["--key-file", "/nowhere"], 1, "the key file /nowhere cannot be read: No such file"),
    ],
)
def test_what_cannot_be_restored_is_said(
    maker: BackupMaker, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    done = run(tmp_path / "repo", tmp_path / "db", *arguments, code=code)
    assert said in done.stderr
    assert not (tmp_path / "db").exists()


def test_nothing_is_overwritten(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "mine").write_text("keep")
    assert "is not empty" in run(tmp_path / "repo", tmp_path / "db", code=1).stderr
    done = run(tmp_path / "repo", tmp_path / "db", "--force", "--check-indexes")
    (aside,) = tmp_path.glob("db.before-*")
    assert str(aside) in done.stderr
    assert (aside / "mine").read_text() == "keep"
    assert dump_of(tmp_path / "db") == history.dumps[-1]
    assert "there is a database in" in run(tmp_path / "repo", tmp_path / "db", code=1).stderr
    assert "no repository of backups" in run(tmp_path / "db", tmp_path / "x", code=1).stderr


def test_an_encrypted_repository_needs_its_key(history: History, tmp_path: Path) -> None:
    new_key_file(tmp_path / "key")
    new_key_file(tmp_path / "other")
    repository = Repository.create(str(tmp_path / "repo"), read_key(tmp_path / "key"))
    BackupMaker(repository, history, tmp_path).back_up(history.entries[4].lsn, history.entries[-1].lsn)
    assert "is encrypted" in run(tmp_path / "repo", tmp_path / "db", code=1).stderr
    wrong = run(tmp_path / "repo", tmp_path / "db", "--key-file", tmp_path / "other", code=1)
    assert "the key is not the one" in wrong.stderr
    run(tmp_path / "repo", tmp_path / "db", "--key-file", tmp_path / "key")
    assert dump_of(tmp_path / "db") == history.dumps[-1]


@pytest.mark.soak
def test_a_restore_that_is_killed_goes_on(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    """A process of its own, ended by SIGKILL after ever more time, until one comes to its end."""
    chance = random.Random(5)
    command = [sys.executable, "-m", "herdpy.cli", "restore", str(tmp_path / "repo"), str(tmp_path / "db")]
    began_s = time.monotonic()
    subprocess.run([*command[:-1], str(tmp_path / "whole")], check=True, capture_output=True)
    whole_s = time.monotonic() - began_s
    killed = 0
    for number in range(40):
        allowed_s = whole_s * (0.5 + number / 60 + chance.random() / 10)
        try:  # subprocess.run ends a process by SIGKILL when its time is over
            subprocess.run(command, check=True, capture_output=True, timeout=allowed_s)
        except subprocess.TimeoutExpired:
            killed += 1
            if (tmp_path / "db" / "HERDPY").exists() and not (tmp_path / "db" / "restore").exists():
                break  # it was done
            continue
        break
    assert killed
    assert dump_of(tmp_path / "db") == history.dumps[-1]
