"""`herdpy backups`: two databases with the same tables in one repository: listed, verified, expired."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from herdpy.cli.app import app

Run = Callable[..., Any]
SCRIPT = 'CREATE TABLE t (x int PRIMARY KEY); CREATE SCHEMA "a b"; CREATE TABLE "a b".t (x int PRIMARY KEY);'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository and its key: two databases, a full backup and two increments of each."""
    folder = tmp_path_factory.mktemp("made")
    place, key = folder / "repository", folder / "backup.key"

    def run(*arguments: object) -> None:
        done = CliRunner().invoke(app, list(map(str, arguments)))
        assert done.exit_code == 0, done.output

    run("backups", "key", key)
    for name in ("one", "two"):
        run("sql", folder / name, "-c", f"{SCRIPT} INSERT INTO t SELECT g FROM generate_series(1, 500) g")
        for number in range(3):
            run("sql", folder / name, "-c", f'INSERT INTO "a b".t VALUES ({number})')
            run("backup", folder / name, "--to", place, "--key-file", key, "--tablespace", f"table {name}")
    return folder


@pytest.fixture
def repository(made: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of it, beside copies of the databases, ``one`` and ``two``."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "repository", tmp_path / "backup.key"


def _json(run: Run, *arguments: object, code: int = 0) -> dict[str, Any]:
    document = json.loads(run("backups", *arguments, "--json", code=code).stdout)
    assert isinstance(document, dict)
    return document


def test_a_repository_is_listed_verified_and_expired(
    run: Run, repository: tuple[Path, Path], tmp_path: Path
) -> None:
    place, key = repository
    options = (place, "--key-file", key)
    listed = _json(run, "list", *options)
    assert [one["kind"] for one in listed["backups"]] == ["full", "log", "log"] * 2
    assert {one["tablespace"] for one in listed["logs"]} == {"table one", "table two"}
    assert [(one["backups"], one["continuous"]) for one in listed["logs"]] == [(3, True)] * 2
    assert all(one["end_time"] for one in listed["logs"])
    assert [listed[name] for name in ("unfinished", "clusters", "damaged")] == [[], [], []]
    first, second, third = _json(run, "list", *options, "--tablespace", "table one")["backups"]
    assert first["needed_by"] == [second["id"], third["id"]]
    assert (third["parent"], third["image"], third["rows"]) == (second["id"], first["image"], 501)
    table = run("backups", "list", *options, "--tablespace", "table one").stdout
    assert all(one["id"] in table for one in (first, second, third))

    # Everything is read; and made databases again.
    document = _json(run, "verify", *options, "--restore", "--scratch", tmp_path)
    assert (document["backups"], document["findings"]) == (6, [])
    assert document["files"] == len([one for one in place.rglob("*") if one.is_file()])
    assert [(one["tables"], one["rows"], one["problem"]) for one in document["restored"]] == [
        (2, 503, None)
    ] * 6
    assert not list(tmp_path.glob("herdpy-verify-*"))
    assert "no problem" in run("backups", "verify", *options, "--backup", first["id"]).stdout

    # The newest stays, with the image of the first.
    would = _json(run, "expire", *options, "--keep-last", 1, "--dry-run")
    assert len(_json(run, "list", *options)["backups"]) == 6
    done = _json(run, "expire", *options, "--keep-last", 1)
    assert done | {"dry_run": True} == would
    assert [one["id"] for one in _json(run, "list", *options)["backups"]] == sorted(done["kept"])
    assert {one["state"] for one in _json(run, "list", *options)["unfinished"]} == {"expired"}
    assert "no problem" in run("backups", "verify", *options).stdout
    run("restore", place, tmp_path / "again", "--key-file", key, "--tablespace", "table two")
    assert '{"x": 2}' in run("sql", tmp_path / "again", "--json", "-c", 'SELECT * FROM "a b".t').stdout

    # One log goes.
    (log,) = {one["log"] for one in _json(run, "list", *options, "--tablespace", "table one")["logs"]}
    said = run("backups", "expire", *options, "--drop-log", log).stdout
    assert "1 backups removed" in said
    assert {one["tablespace"] for one in _json(run, "list", *options)["logs"]} == {"table two"}


def test_damage_is_named_and_fails(run: Run, repository: tuple[Path, Path], tmp_path: Path) -> None:
    place, key = repository
    options = (place, "--key-file", key)
    packs = sorted(place.rglob("pages-0"))
    data = bytearray(packs[0].read_bytes())
    data[100] ^= 1
    packs[0].write_bytes(data)
    packs[1].unlink()
    document = _json(run, "verify", *options, code=1)
    names = [str(one.relative_to(place)) for one in packs]
    assert [(one["kind"], one["file"]) for one in document["findings"]] == [
        ("damaged", names[0]),
        ("missing", names[1]),
    ]
    text = run("backups", "verify", *options, code=1).stdout
    assert f"damaged: {names[0]}: it does not match its checksum" in text
    assert "2 problems" in text
    restored = _json(run, "verify", *options, "--restore", "--scratch", tmp_path, code=1)["restored"]
    assert all(one["problem"] for one in restored)
    # What a manifest says is unknown: nothing of its log goes, and the list says so.
    manifest = sorted(place.rglob("manifest"))[0]
    manifest.write_bytes(manifest.read_bytes()[:-1])
    assert _json(run, "list", *options, code=1)["damaged"][0]["file"] == str(manifest.relative_to(place))
    assert len(_json(run, "expire", *options, "--keep-last", 1, code=1)["skipped"]) == 1


def test_keys_and_refusals(run: Run, repository: tuple[Path, Path], tmp_path: Path) -> None:
    place, key = repository
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "there already" in run("backups", "key", key, code=1).stderr
    assert "cannot be written" in run("backups", "key", tmp_path / "no" / "key", code=1).stderr
    assert "--key-file" in run("backups", "list", place, code=1).stderr
    run("backups", "key", tmp_path / "other.key")
    for command in ("list", "verify"):
        said = run("backups", command, place, "--key-file", tmp_path / "other.key", code=1).stderr
        assert "the key is not the one" in said
    nothing = tmp_path / "nothing"
    for arguments in (("backups", "list", place), ("backup", tmp_path / "one", "--to", place)):
        said = run(*arguments, "--key-file", nothing, code=1).stderr
        assert f"the key file {nothing} cannot be read" in said.replace("\n", " ")
    assert "no repository" in run("backups", "list", nothing, code=1).stderr
    assert "--keep-last 1" in run("backups", "expire", place, "--key-file", key, code=1).stderr
    assert (
        "no backup nix" in run("backups", "expire", place, "--key-file", key, "--drop", "nix", code=1).stderr
    )
    assert (
        "no backup nix"
        in run("backups", "verify", place, "--key-file", key, "--backup", "nix", code=1).stderr
    )


def test_restores_are_compared_with_a_living_database(
    run: Run, repository: tuple[Path, Path], tmp_path: Path
) -> None:
    place, key = repository
    options = (place, "--key-file", key, "--restore", "--scratch", tmp_path)
    found = _json(run, "verify", *options, "--against", tmp_path / "one")["restored"]
    assert [(one["tablespace"], one["rows"], one["problem"]) for one in found] == [
        ("table one", 503, None)
    ] * 3
    assert {one["against"] for one in found} == {str(tmp_path / "one")}
    # One that went another way at the same position, and one that is beyond the archive.
    shutil.copytree(tmp_path / "one", tmp_path / "fork")
    run("sql", tmp_path / "one", "-c", "INSERT INTO t VALUES (1000)")
    run("backup", tmp_path / "one", "--to", place, "--key-file", key, "--tablespace", "table one")
    run("sql", tmp_path / "fork", "-c", "INSERT INTO t VALUES (1001)")
    found = _json(run, "verify", *options, "--against", tmp_path / "one")["restored"]
    assert [one["problem"] for one in found] == [None] * 4
    found = _json(run, "verify", *options, "--against", tmp_path / "fork", code=1)["restored"]
    assert all("table t is not that of" in one["problem"] for one in found)
    run("sql", tmp_path / "one", "-c", "INSERT INTO t VALUES (1002)")
    found = _json(run, "verify", *options, "--against", tmp_path / "one", code=1)["restored"]
    assert all("beyond what is archived" in one["problem"] for one in found)
    assert (
        "are for --restore" in run("backups", "verify", place, "--against", tmp_path / "one", code=2).stderr
    )
