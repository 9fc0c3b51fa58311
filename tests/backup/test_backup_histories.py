"""Random histories with backups, kills of whoever backs up, and restarts between: restores equal the model.

What the database had after each commit is known (``histories``). Then positions, times and commits are drawn,
restored by the command, and compared: rows, sequences, roles, rights, definitions, and the outcome of every
commit by its name.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import herdpy
from herdpy.backup.repository import new_key_file
from herdpy.log.lsn import LSN
from tests.backup.histories import History
from tests.backup.vaults import Vault, check_restores

SOAK = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12)]


@pytest.mark.parametrize("seed", [1, *SOAK])
@pytest.mark.timeout(600)
def test_an_embedded_database(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    directory = tmp_path / "database"
    key_file = tmp_path / "key" if seed % 2 else None
    if key_file is not None:
        new_key_file(key_file)
    vault = Vault(directory, str(tmp_path / "vault"), chance, key_file)
    connection = herdpy.connect(f"herdpy:{directory}", autocommit=True)
    history = History(seed, connection)
    history.begin()

    def reopen() -> None:
        history.connection.close()
        if chance.random() < 0.5:
            vault.back_up()  # nobody has it open
        history.connection = herdpy.connect(f"herdpy:{directory}", autocommit=True)

    between: list[Callable[[], object]] = [
        vault.back_up,
        lambda: vault.back_up_beside(history.step),
        lambda: vault.back_up_beside(history.step, "--full"),
        vault.back_up_and_kill,
        lambda: vault.back_up_and_kill("--full"),
        lambda: history.connection.execute("CHECKPOINT"),
        reopen,
        lambda: vault.expire(2),
    ]
    chance.shuffle(between)
    try:
        for do in between if seed == 1 else [*between, *between]:
            for _ in range(5):
                history.step()
            do()
        vault.back_up()
    finally:
        history.connection.close()
    assert LSN.parse(vault.manifests[-1]["end"]) >= history.moments[-1].lsn
    vault.verify()
    drawn = [one for one in history.moments[:-1] if vault.has(one.lsn, one.lsn)]
    drawn = chance.sample(drawn, min(6, len(drawn)))
    check_restores(vault, history, tmp_path, drawn, history.moments[-1])
    early = history.moments[0].lsn
    if early < min(LSN.parse(one["lsn"]) for one in vault.manifests):
        said = vault.restore(tmp_path / "too-early", "--to-lsn", early, code=1)
        assert "is before the oldest backup" in said
        assert not (tmp_path / "too-early").exists()
