"""Where a server's settings come from, which wins, and what is said of those that are wrong."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from herdpy_server.config import ConfigError, ServerConfig, load
from tests.config.kit import DATA, problems


def test_later_places_win(written):
    path = written("[postgres]\nport = 1000\nmax_connections = 5\n[logging]\nlevel = 'debug'\n")
    environment = {"HERDPY_POSTGRES_PORT": "2000", "HERDPY_POSTGRES_MAX_CONNECTIONS": "6", "HOME": "/"}
    loaded = load(path, environment=environment, flags=[DATA, ("--port", "postgres.port", "3000")])
    config = loaded.config
    assert (config.postgres.port, config.postgres.max_connections, config.logging.level) == (3000, 6, "debug")
    assert loaded.origins == {
        "data.directory": "flag --data",
        "postgres.port": "flag --port",
        "postgres.max_connections": "environment HERDPY_POSTGRES_MAX_CONNECTIONS",
        "logging.level": f"{path}:5",
    }
    assert config.storage == ServerConfig().storage


def test_an_unknown_setting_is_told_with_its_line_and_the_nearest_one(written):
    path = written("[postgres]\n\nmax_conections = 5\n")
    assert problems(path) == [
        f"{path}:3: there is no setting postgres.max_conections; did you mean postgres.max_connections?"
    ]


def test_an_unknown_section_is_told(written):
    path = written("# nothing\n[postgers]\nport = 5\n")
    assert problems(path) == [f"{path}:2: there is no section [postgers]; did you mean postgres?"]


def test_a_setting_outside_of_any_section_is_told(written):
    path = written("port = 5\nstorage = 3\n")
    assert problems(path) == [
        f"{path}:1: port is outside of any section; did you mean postgres.port?",
        f"{path}:2: storage is a section: write [storage]",
    ]


@pytest.mark.parametrize(
    ("line", "section", "takes"),
    [
        ("port = 'x'", "postgres", "a whole number from 0 to 65535"),
        ("port = 65536", "postgres", "a whole number from 0 to 65535"),
        ("port = -1", "postgres", "a whole number from 0 to 65535"),
        ("port = true", "postgres", "a whole number from 0 to 65535"),
        ("port = 1.5", "postgres", "a whole number from 0 to 65535"),
        ("address = 1", "http", "text"),
        ("addresses = '*'", "postgres", "a list of texts"),
        ("create = 'yes'", "data", "true or false"),
        ("level = 'loud'", "logging", "one of debug, info, warning, error"),
        ("levels = { x = 'loud' }", "logging", "a table of logger = one of debug, info, warning, error"),
        ("slow_statement_s = nan", "logging", "seconds from -1 to 86400"),
        ("slow_statement_s = inf", "logging", "seconds from -1 to 86400"),
        ("memtable_limit_bytes = '3 parsecs'", "storage", "bytes from 1 MiB to 1 TiB"),
        ("memtable_limit_bytes = 5", "storage", "bytes from 1 MiB to 1 TiB"),
        ("checkpoint_interval_s = [1]", "storage", "seconds from 0.01 to 3600"),
        ("rules = [{ method = 'md5' }]", "authentication", "a list of tables with method"),
        ("rules = [{ metod = 'trust' }]", "authentication", "a list of tables with method"),
    ],
)
def test_a_value_that_is_not_allowed_is_told_with_its_line_and_what_is(written, line, section, takes):
    path = written(f"[{section}]\n{line}\n")
    (problem,) = problems(path)
    assert problem.startswith(f"{path}:2: {section}.{line.split(' =')[0]} = ")
    assert f"it takes {takes}" in problem


@pytest.mark.parametrize(("name", "text"), [("HERDPY_HTTP_PORT", "high"), ("HERDPY_HTTP_ENABLED", "2")])
def test_the_environment_is_checked(name, text):
    (problem,) = problems(environment={name: text})
    assert problem.startswith(f"environment {name}: http.")
    assert repr(text) in problem


def test_a_misspelt_variable_is_told_and_others_are_left_alone():
    environment = {"HERDPY_HTTP_PROT": "1", "HERDPY_HISTORY": "x", "HERDPY_CACHE": "y"}
    assert problems(environment=environment) == [
        "environment HERDPY_HTTP_PROT: there is no such setting; did you mean HERDPY_HTTP_PORT?"
    ]


def test_a_flag_for_no_setting_is_told():
    assert problems(flags=[("--set http.prt", "http.prt", "1")]) == [
        "flag --set http.prt: there is no setting http.prt; did you mean http.port?"
    ]


def test_a_wrong_value_in_the_file_is_told_although_a_flag_overrules_it(written):
    path = written("[postgres]\nport = 'x'\n")
    (problem,) = problems(path, flags=[("--port", "postgres.port", "5433")])
    assert problem.startswith(f"{path}:2: postgres.port = 'x'")


def test_wrong_values_of_a_flag_and_of_the_file_are_both_told(written):
    path = written("[postgres]\nport = 'x'\n")
    told = problems(path, flags=[("--port", "postgres.port", "y")])
    assert [problem.partition(": ")[0] for problem in told] == [f"{path}:2", "flag --port"]


def test_no_data_directory_is_told():
    with pytest.raises(ConfigError, match="there is no data directory: give --data DIR"):
        load()


def test_a_file_that_is_no_toml_is_told_with_the_line(written):
    path = written("[postgres]\nport = = 5\n")
    (problem,) = problems(path)
    assert problem.startswith(f"{path}: is not TOML: ")
    assert "line 2" in problem


def test_a_file_in_another_encoding_is_told(tmp_path):
    path = tmp_path / "server.toml"
    path.write_bytes("[data]\ndirectory = 'ä'".encode("latin-1"))
    assert problems(path) == [f"{path}: is not UTF-8 (byte 20)"]


def test_a_file_that_is_not_there_is_told(tmp_path):
    path = tmp_path / "none.toml"
    assert problems(path) == [f"{path}: cannot be read: No such file or directory"]


def test_a_directory_instead_of_a_file_is_told(tmp_path):
    assert problems(tmp_path) == [f"{tmp_path}: cannot be read: Is a directory"]


def test_a_file_that_may_not_be_read_is_told(written):
    path = written("[data]\n")
    path.chmod(0)
    # root may read every file: the process gives that up first
    code = (
        "import os, sys; from pathlib import Path\n"
        "from herdpy_server.config import ConfigError, load\n"
        "if os.geteuid() == 0: os.setresuid(65534, 65534, 65534)\n"
        "try: load(Path(sys.argv[1]))\n"
        "except ConfigError as error: print(error.problems[0])\n"
    )
    path.parent.chmod(0o755)
    for parent in path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o111)
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout == f"{path}: cannot be read: Permission denied\n"


def test_a_file_that_is_too_large_is_told(written):
    path = written("#" * ((1 << 20) + 1))
    assert problems(path) == [f"{path}: is larger than 1048576 bytes"]


def test_two_doors_at_one_port_are_told(written):
    path = written("[http]\nport = 5432\n")
    assert problems(path) == [f"{path}:2: http.port = 5432 is postgres.port as well, on 127.0.0.1"]
    everywhere = written("[http]\nport = 5432\naddress = '10.1.1.1'\n[postgres]\naddresses = ['*']\n")
    assert "http.port = 5432 is postgres.port as well" in problems(everywhere)[0]
    free = load(written("[http]\nport = 0\n[postgres]\nport = 0\n"), flags=[DATA])
    assert free.config.http.port == 0
    (problem,) = problems(written("[postgres]\naddresses = []\n"))
    assert "postgres.addresses is empty" in problem
    (problem,) = problems(written("[http]\naddress = ''\n"))
    assert problem.endswith('server.toml:2: http.address: "" is no address')
    off = load(written("[http]\nport = 5432\nenabled = false\n"), flags=[DATA])
    assert off.config.http.port == 5432


@pytest.mark.parametrize("network", ["10.0.0.1/8", "here", "300.0.0.0/8", ""])
def test_a_network_that_is_none_is_told(written, network):
    path = written(f"[authentication]\nrules = [{{ method = 'trust', network = '{network}' }}]\n")
    (problem,) = problems(path)
    assert problem.startswith(f"{path}:2: authentication.rules, rule 1: network = '{network}'")


def test_rules_that_let_nobody_in_are_told(written):
    path = written("[authentication]\nrules = []\n")
    assert problems(path) == [f"{path}:2: authentication.rules is empty: no client could connect"]


def test_what_is_open_to_everybody_is_warned_of(written):
    with pytest.raises(ConfigError, match=r"trusted without a password: set authentication\.trust"):
        load(written("[authentication]\nrules = [{ method = 'trust' }]\n"), flags=[DATA])
    path = written(
        "[authentication]\ntrust_other_machines = true\nrules = [{ method = 'trust' }]\n"
        "[postgres]\naddresses = ['::']\n"
    )
    assert load(path, flags=[DATA]).warnings == [
        f"{path}:3: clients from other machines are trusted without a password",
        f"{path}:5: other machines can connect to ::, and there is no TLS",
    ]
    assert load(flags=[DATA]).warnings == []
