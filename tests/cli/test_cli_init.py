"""``herdpy init``: a configuration that the server takes, made of options or of answers on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import ssl
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from typer.testing import CliRunner

from herdpy.cli.app import app
from herdpy_server.config import load
from tests.cli.processes import command, environment
from tests.support.server_process import RunningServer

PASSWORD = "correct horse"


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def init(place: Path, *words: object) -> Done:
    """The command in this process, without a terminal."""
    with contextlib.chdir(place):
        result = CliRunner().invoke(app, ["init", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_defaults_without_a_terminal(tmp_path: Path) -> None:
    done = init(tmp_path, "data")
    assert done.returncode == 0, done.stderr
    config = load(tmp_path / "server.toml").config
    assert config.data.directory == str(tmp_path / "data")
    assert config.postgres.addresses == ("127.0.0.1",)
    assert "psql -h 127.0.0.1 -p 5432" in done.stdout
    assert mode(tmp_path / "server.toml") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["server.toml"]


def test_a_server_starts_with_it_and_knows_the_first_role(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(PASSWORD + "\nnot this\n")
    words = ["--listen", "127.0.0.1,::1", "--tls", "self-signed", "--password-file", "secret"]
    done = init(tmp_path, "data", *words, "--superuser", "Ann O'Neil", "--memory", "2 GiB", "--json")
    assert done.returncode == 0, done.stderr
    made = {Path(one).name for one in json.loads(done.stdout)["files"]}
    assert made == {"server.toml", "server.crt", "server.key"}
    assert mode(tmp_path / "server.key") == 0o600
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "secret":
            assert PASSWORD not in path.read_text(), path
    here = ["--host", "127.0.0.1", "--set", 'authentication.rules=[{method="scram-sha-256"}]']
    server = RunningServer(tmp_path / "data", "--config", tmp_path / "server.toml", *here)
    try:
        server.ready()
        whole = {"user": "Ann O'Neil", "sslmode": "verify-full", "sslrootcert": tmp_path / "server.crt"}
        with server.connect(password=PASSWORD, **whole) as conn:
            assert conn.execute("SELECT current_setting('is_superuser')").fetchone() == ("on",)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            server.connect(password="wrong one", **whole)
    finally:
        server.close()


def test_a_member_of_a_cluster(tmp_path: Path) -> None:
    words = ["--cluster", "zk1:2181,zk2:2181", "--node", "server-1", "--advertise", "db1", "--bookies", 2]
    done = init(tmp_path, "data", *words)
    assert done.returncode == 0, done.stderr
    cluster = load(tmp_path / "server.toml").config.cluster
    assert (cluster.zookeeper, cluster.node, cluster.advertise) == ("zk1:2181,zk2:2181", "server-1", "db1")
    assert (cluster.ensemble, cluster.write_quorum, cluster.ack_quorum) == (2, 2, 2)
    assert "CREATE ROLE admin SUPERUSER LOGIN" in done.stdout
    assert str(tmp_path / "server.toml") in done.stderr, "the warning of no TLS names the file"


def test_settings_that_were_not_chosen_are_comments(tmp_path: Path) -> None:
    init(tmp_path, "data", "--port", 5444)
    text = (tmp_path / "server.toml").read_text()
    found = tomllib.loads(text)
    assert found["postgres"] == {"addresses": ["127.0.0.1"], "port": 5444}
    assert "# slow_statement_s = " in text
    assert found["storage"] == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give DIR"),
        (("data", "--node", "a"), "--node is for a member of a cluster"),
        (("data", "--cluster", "zk1", "--node", "a"), 'not of the form "host:port'),
        (("data", "--cluster", "z:1", "--node", "no way"), "cluster.node"),
        (("data", "--cluster", "z:1", "--superuser", "ann"), "after the start"),
        (("data", "--listen", "*"), "--password-file FILE"),
        (("data", "--no-password", "--superuser", "ann"), "leave --superuser"),
        (("data", "--password-file", "none"), "none"),
        (("data", "--password-file", "short"), "fewer than 8"),
        (("data", "--tls", "some"), "none, self-signed, files"),
        (("data", "--tls", "files"), "--certificate and --key"),
        (("data", "--tls", "files", "--certificate", "short", "--key", "short"), "tls.certificate"),
        (("data", "--tls", "none", "--key", "short"), "for --tls files"),
        (("data", "--memory", "lots"), "--memory"),
        (("data", "--memory", "1 MiB"), "1 GiB at least"),
        (("data", "--backup-url", "ftp//x:y@z\0"), ""),
        (("data", "-o", "nowhere/server.toml"), "is no directory"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_writes_nothing(tmp_path: Path, words: tuple[object, ...], said: str) -> None:
    (tmp_path / "short").write_text("short\n")
    words = tuple(str(one).replace("\0", "") for one in words)
    done = init(tmp_path, *words)
    if said:
        assert done.returncode in (1, 2)
        assert said in done.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["short"]


def test_nothing_is_overwritten_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text("precious")
    (tmp_path / "secret").write_text(PASSWORD)
    done = init(tmp_path, "data", "--password-file", "secret")
    assert done.returncode == 1
    assert "--force" in done.stderr
    assert (tmp_path / "server.toml").read_text() == "precious"
    assert not (tmp_path / "data").exists()
    assert init(tmp_path, "data", "--password-file", "secret", "--force").returncode == 0
    roles = (tmp_path / "data" / "users.json").read_text()
    again = init(tmp_path, "data", "--password-file", "secret", "--force")
    assert again.returncode == 1
    assert "has roles already" in again.stderr
    assert (tmp_path / "data" / "users.json").read_text() == roles


def test_a_terminal_is_asked(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("init", "--memory", "4 GiB"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    answers = ["my data", "", "", "5777", "", "", "self-signed", "", PASSWORD, PASSWORD, ""]
    shown = ""
    try:
        while True:
            try:
                read = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            shown += read.decode()
            # The space comes last: of a password once the terminal is set, which drops what came before.
            if answers and shown.endswith(": "):
                os.write(ours, answers.pop(0).encode() + b"\n")
                shown += "|"
        assert process.wait(60) == 0, shown
    finally:
        os.close(ours)
        process.kill()
        process.wait()
    assert not answers, shown
    assert PASSWORD not in shown
    config = load(tmp_path / "server.toml").config
    assert (config.data.directory, config.postgres.port) == (str(tmp_path / "my data"), 5777)
    assert '"admin"' in (tmp_path / "my data" / "users.json").read_text()
    ssl.create_default_context(cafile=config.tls.certificate)
