"""Every file of a repository is removed, changed, cut, exchanged and replaced, one after the other.

Whatever was done is named by ``herdpy backups verify``, with its file; and no restore gives anything but what
the database had, or an error that names a file or a position.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import herdpy
from herdpy.backup.checking import RepositoryFinding, verify
from herdpy.backup.errors import BackupError
from herdpy.backup.manifest import read_catalog
from herdpy.backup.repository import IDENTITY, Repository
from herdpy_server.backup.making import directory_order, make_backup
from herdpy_server.backup.messages import Scope
from herdpy_server.backup.restoring import RestoreOptions, restore
from herdpy_server.backup.targets import RestoreTarget, make_plan
from tests.backup.histories import History

Damage = Callable[[Path, Path, Path, random.Random], None]


def removed(file: Path, _other: Path, _foreign: Path, _chance: random.Random) -> None:
    file.unlink()


def changed(file: Path, _other: Path, _foreign: Path, chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def cut(file: Path, _other: Path, _foreign: Path, chance: random.Random) -> None:
    file.write_bytes(file.read_bytes()[: -chance.randrange(1, 20)])


def exchanged(file: Path, other: Path, _foreign: Path, _chance: random.Random) -> None:
    shutil.copy(other, file)


def foreign(file: Path, _other: Path, foreign: Path, _chance: random.Random) -> None:
    shutil.copy(foreign, file)


DAMAGES: list[Damage] = [removed, changed, cut, exchanged, foreign]


def _filled(path: Path, url: str, seed: int) -> History:
    """A history with three backups, the last with a log."""
    history = History(seed, herdpy.connect(f"herdpy:{path}", autocommit=True))
    history.begin()
    repository = Repository.create(url)
    scopes: tuple[Scope, ...] = ("full", "any", "any")
    for scope in scopes:
        for _ in range(6):
            history.step()
        history.connection.close()
        make_backup(directory_order(path, "default", scope=scope), repository)
        history.connection = herdpy.connect(f"herdpy:{path}", autocommit=True)
    history.connection.close()
    return history


def _is_about(finding: RepositoryFinding, name: str) -> bool:
    """Whether it is a problem with that file."""
    return finding.is_problem and (name in f"{finding.file} {finding.text}" or finding.kind == "gap")


@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
def test_what_was_done_is_named_and_nothing_wrong_is_restored(
    damage: Damage, share: int, tmp_path: Path
) -> None:
    chance = random.Random(damage.__name__)
    history = _filled(tmp_path / "database", str(tmp_path / "vault"), 5)
    _filled(tmp_path / "other", str(tmp_path / "foreign"), 6)
    vault, others = tmp_path / "vault", tmp_path / "foreign"
    files = sorted(one for one in vault.rglob("*") if one.is_file() and one.name != IDENTITY)
    foreigners = sorted(one for one in others.rglob("*") if one.is_file() and one.name != IDENTITY)
    repository = Repository.open(str(vault))
    assert not verify(repository).problems
    last = history.moments[-1]
    for file in chance.sample(files, len(files) // share):
        kept = file.read_bytes()
        same = [one for one in files if one.parent.name == file.parent.name and one != file] or files
        damage(file, chance.choice([one for one in same if one != file]), chance.choice(foreigners), chance)
        name = str(file.relative_to(vault))
        findings = verify(repository).findings
        if damage is not removed or file.name != "manifest":  # a backup without one is gone as if expired
            assert [one for one in findings if _is_about(one, name)], f"{damage.__name__} {name}: {findings}"
        target = tmp_path / "restored"
        try:
            plan = make_plan(repository, read_catalog(repository), RestoreTarget(lsn=last.lsn))
            restore(repository, plan, target, RestoreOptions())
        except BackupError:
            pass  # it says what is missing
        else:
            with herdpy.connect(f"herdpy:{target}", autocommit=True) as connection:
                assert history.wrong(connection, last) == []
        shutil.rmtree(target, ignore_errors=True)
        file.write_bytes(kept)
    assert not verify(repository).problems
