"""`herdpy server`: its flags, looking at the configuration, and what is said of a wrong one."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import pytest

from herdpy.cli.serving import ServerArguments, plain_arguments


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """No setting comes from the environment of whoever runs the tests."""
    import os

    for name in [name for name in os.environ if name.startswith("HERDPY_")]:
        monkeypatch.delenv(name)


def test_help_says_how_to_begin(run):
    shown = run("server", "--help").stdout
    for words in ("--data", "--config", "--check-config", "--print-config", "--set", "Exit codes", "SIGTERM"):
        assert words in shown


def test_a_right_configuration_is_told_to_be_right(run, db):
    result = run("server", "--data", db, "--check-config")
    assert (result.stdout, result.stderr) == ("The configuration is right.\n", "")
    assert not db.exists()


def test_warnings_are_told_and_do_no_harm(run, db):
    result = run("server", "--data", db, "--host", "*", "--check-config")
    assert result.stderr == "warning: flag --host: other machines can connect to *, and there is no TLS\n"


def test_every_problem_is_told_and_the_exit_code_is_2(run, tmp_path):
    path = tmp_path / "server.toml"
    path.write_text("[postgres]\nprot = 1\n[tls]\nkey = '/none'\n")
    result = run("server", "--config", path, "--port", "many", "--check-config", code=2)
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{path}:2: there is no setting postgres.prot; did you mean postgres.port?",
        "flag --port: postgres.port = 'many': it is not allowed; it takes a whole number from 0 to 65535",
        "there is no data directory: give --data DIR, data.directory or HERDPY_DATA_DIRECTORY",
        f"{path}:4: tls.key is given without tls.certificate: TLS needs both, or neither",
        "error: the configuration has 4 problems",
        "HINT:  conf/server.toml lists every setting; herdpy server --help the flags.",
        "PAGE:  docs/first-errors.md#configuration",
    ]


def test_a_server_with_a_wrong_configuration_does_not_start(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "herdpy.cli", "server", "--data", tmp_path / "db", "--port", "-1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "postgres.port = '-1': it is not allowed" in done.stderr
    assert not (tmp_path / "db").exists()


def test_a_file_that_is_not_there_is_wrong_usage(run, tmp_path):
    result = run("server", "--config", tmp_path / "none", "--data", "x", code=2)
    assert "none: cannot be read: No such file or directory" in result.stderr


def test_a_flag_without_a_value_is_wrong_usage(run):
    assert "write --set section.name=value" in run("server", "--set", "http.port", code=2).stderr


def test_the_values_that_hold_are_shown_with_where_they_come_from(run, db, tmp_path, monkeypatch):
    path = tmp_path / "server.toml"
    path.write_text("[http]\nport = 8000\n[storage]\ncheckpoint_rows = 7\n")
    monkeypatch.setenv("HERDPY_POSTGRES_PORT", "8001")
    shown = run(
        "server", "--config", path, "--data", db, "--set", "http.port=8002", "--log-format", "json",
        "--log-level", "error", "--host", "::1,127.0.0.1", "--print-config",
    ).stdout  # fmt: skip
    values = tomllib.loads(shown)
    assert values["http"]["port"] == 8002
    assert values["postgres"]["port"] == 8001
    assert values["postgres"]["addresses"] == ["::1", "127.0.0.1"]
    assert values["logging"]["format"] == "json"
    assert values["logging"]["level"] == "error"
    for line in (
        "port = 8002  # flag --set http.port",
        "port = 8001  # environment HERDPY_POSTGRES_PORT",
        f"checkpoint_rows = 7  # {path}:4",
        f"directory = {json.dumps(str(db))}  # flag --data",
    ):
        assert line in shown.splitlines()


def test_starting_imports_nothing_heavy_before_it_has_to():
    heavy = ("msgspec", "uvicorn", "uvloop")
    code = f"import sys; import herdpy.cli.app; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def _of_typer(*words):
    """The arguments as typer reads them."""
    from typer.main import get_command

    from herdpy.cli.app import app

    command = get_command(app).commands["server"]
    given = command.make_context("server", list(words)).params
    return ServerArguments(**{**given, "set_": tuple(given["set_"] or ())})


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--data", "db"),
        ("-d", "db", "-p", "5433", "-c", "conf/server.toml"),
        ("--host", "", "--port", "-1", "--log-level", "--data", "--log-format", "json"),
        ("--data", "a", "--data", "b", "--check-config", "--print-config", "--check-config"),
        ("--set", "http.enabled=false", "--config", "a b.toml", "--set", "grpc.port=0"),
    ],
)
def test_plain_arguments_are_what_typer_makes_of_them(words):
    assert plain_arguments(words) == _of_typer(*words)


@pytest.mark.parametrize(
    "words", [("--help",), ("-h",), ("--data",), ("--data=db",), ("-ddb",), ("db",), ("--prot", "1"), ("--",)]
)
def test_other_arguments_are_left_to_typer(words):
    assert plain_arguments(words) is None


def test_every_flag_is_read():
    from herdpy.cli import serving

    words = ["--data", "d", "--config", "c", "--host", "h", "--port", "1", "--log-level", "l"]
    words += ["--log-format", "f", "--set", "a.b=1", "--check-config", "--print-config"]
    arguments = plain_arguments(words)
    plain = serving.ServerArguments()
    assert arguments is not None
    assert all(getattr(arguments, one) != getattr(plain, one) for one in plain.__slots__)
    assert {flag for flag in serving.FLAGS | serving.SWITCHES if flag.startswith("--")} == {
        word for word in words if word.startswith("--")
    }
