"""The section of backups: its key file is read before the server starts."""

from __future__ import annotations

from pathlib import Path

from herdpy.backup.repository import new_key_file
from herdpy_server.config import load
from tests.config.kit import DATA, problems


def test_a_key_file_is_read(tmp_path: Path) -> None:
    key = tmp_path / "key"
    flags = [("--set", "backup.url", "/srv/backups"), ("--set", "backup.key_file", str(key))]
    (missing,) = problems(flags=flags)
    assert missing.startswith("flag --set: backup.key_file: ")
    assert "No such file" in missing
    key.write_text("c2hvcnQ=\n")
    (short,) = problems(flags=flags)
    assert "it must have 32 bytes in base64" in short
    key.unlink()
    new_key_file(key)
    assert load(None, flags=[DATA, *flags]).config.backup.key_file == str(key)


def test_a_key_file_needs_a_repository(tmp_path: Path) -> None:
    key = tmp_path / "key"
    new_key_file(key)
    (problem,) = problems(flags=[("--set", "backup.key_file", str(key))])
    assert problem == "flag --set: backup.key_file needs backup.url"
