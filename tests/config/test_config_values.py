"""Where a server's settings come from, which wins, and what is said of those that are wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trustme

from herdpy.zookeeper_access import ZooKeeperAccess
from herdpy_server.config import ConfigError, ServerConfig, load
from herdpy_server.config.fields import all_settings, parse_size, size_text
from herdpy_server.process.member import zookeeper_access

DATA = ("--data", "data.directory", "/srv/db")


def problems(path: Path | None = None, **more) -> list[str]:
    """What is wrong with a configuration that has a data directory."""
    flags = [DATA, *more.pop("flags", ())]
    with pytest.raises(ConfigError) as caught:
        load(path, flags=flags, **more)
    return caught.value.problems


@pytest.fixture
def written(tmp_path):
    """Writes a configuration file."""

    def write(text: str) -> Path:
        path = tmp_path / "server.toml"
        path.write_text(text)
        return path

    return write


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
        f"{path}:1: port stands outside of any section; did you mean postgres.port?",
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
    assert problems(path) == [f"{path}:2: authentication.rules is empty: nobody could connect"]


def test_what_is_open_to_everybody_is_warned_of(written):
    with pytest.raises(ConfigError, match=r"trusted without a password: say authentication\.trust"):
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


# TLS


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """Files of a certificate and its key, and of another certificate."""
    directory = tmp_path_factory.mktemp("pem")
    authority = trustme.CA()
    paths = {}
    for name in ("own", "other"):
        issued = authority.issue_cert("localhost")
        paths[name] = directory / f"{name}.pem"
        paths[f"{name}_key"] = directory / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(paths[name])
        issued.private_key_pem.write_to_path(paths[f"{name}_key"])
    return paths


def test_a_certificate_and_its_key_are_taken(written, pem):
    path = written(f"[tls]\ncertificate = '{pem['own']}'\nkey = '{pem['own_key']}'\nrequired = true\n")
    assert load(path, flags=[DATA]).config.tls.required


def test_a_key_without_a_certificate_is_told(written, pem):
    path = written(f"[tls]\nkey = '{pem['own_key']}'\n")
    assert problems(path) == [
        f"{path}:2: tls.key is given without tls.certificate: TLS needs both, or neither"
    ]


def test_a_certificate_without_a_key_is_told(written, pem):
    path = written(f"[tls]\ncertificate = '{pem['own']}'\n")
    assert problems(path) == [
        f"{path}:2: tls.certificate is given without tls.key: TLS needs both, or neither"
    ]


def test_a_key_of_another_certificate_is_told(written, pem):
    path = written(f"[tls]\ncertificate = '{pem['own']}'\nkey = '{pem['other_key']}'\n")
    (problem,) = problems(path)
    assert problem.startswith(f"{path}:2: tls.certificate {pem['own']} and tls.key {pem['other_key']} cannot")


def test_files_that_cannot_be_read_are_told(written, pem):
    path = written("[tls]\ncertificate = '/none.pem'\nkey = '/none.key'\n")
    assert problems(path) == [
        f"{path}:2: tls.certificate: /none.pem cannot be read: No such file or directory",
        f"{path}:3: tls.key: /none.key cannot be read: No such file or directory",
    ]


def test_what_needs_tls_is_told_without_it(written):
    path = written("[tls]\nrequired = true\nclient_ca = '/x'\n")
    assert problems(path) == [
        f"{path}:2: tls.required needs tls.certificate and tls.key",
        f"{path}:3: tls.client_ca needs tls.certificate and tls.key",
    ]


# Values as text


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("1 KiB", 1024), ("64MiB", 64 << 20), ("1.5 gb", 1_500_000_000), ("1_000 B", 1000)],
)
def test_sizes_may_have_units(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 MiBs", "1e3", "1..5 MB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1 << 20, 3 << 30, (1 << 40) + 1])
def test_a_size_is_read_as_it_is_written(size):
    assert parse_size(size_text(size)) == size


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("http.enabled", "off", False),
        ("http.enabled", " TRUE ", True),
        ("http.port", "8_000", 8000),
        ("storage.checkpoint_interval_s", "2", 2.0),
        ("storage.column_cache_bytes", "1 GiB", 1 << 30),
        ("postgres.addresses", "::1, localhost", ("::1", "localhost")),
        ("postgres.addresses", '["::1"]', ("::1",)),
        ("logging.levels", '{ "herdpy.log" = "debug" }', {"herdpy.log": "debug"}),
    ],
)
def test_text_becomes_a_value(key, text, value):
    parsed = all_settings()[key].parse(text)
    assert (parsed, type(parsed)) == (value, type(value))


def test_rules_can_be_given_as_text():
    rules = (
        '[{ method = "reject", network = "10.0.0.0/8" }, '
        '{ method = "trust", user = "ann", network = "loopback" }]'
    )
    loaded = load(flags=[DATA, ("--set", "authentication.rules", rules)])
    assert [msgspec.structs.astuple(rule) for rule in loaded.config.authentication.rules] == [
        ("reject", "10.0.0.0/8", "all", ""),
        ("trust", "loopback", "ann", ""),
    ]


# A cluster


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("zookeeper = 'one'", 'is not of the form "host:port,host:port"'),
        ("zookeeper = 'one:2181, two:2181'", 'is not of the form "host:port,host:port"'),
        ("root = '/'", 'is no path such as "/herdpy"'),
        ("root = 'herdpy'", 'is no path such as "/herdpy"'),
        ("ledgers_root = '/a//b'", 'is no path such as "/herdpy"'),
        ("node = 'a/b'", "an id has letters"),
        ("tablespace = '../a'", "a name has letters"),
        ("ack_quorum = 4", "must hold"),
        ("write_quorum = 4", "must hold"),
        ("lease_s = 1.6", "is longer than"),
    ],
)
def test_a_cluster_that_cannot_be_is_told(written, line, told):
    path = written(f"[cluster]\n{line}\n")
    (problem,) = problems(path)
    assert f"cluster.{line.split(' =')[0]}" in problem
    assert told in problem


def test_a_cluster_that_can_be(written):
    path = written(
        "[cluster]\nzookeeper = 'one:2181,[::1]:2182'\nnode = 'n.1'\nroot = '/a/b'\nack_quorum = 3\n"
    )
    assert load(path, flags=[DATA]).config.cluster.node == "n.1"


def test_the_secret_of_a_cluster_is_looked_at(tmp_path):
    path, secret = tmp_path / "server.toml", tmp_path / "secret"
    path.write_text(f'[data]\ndirectory = "/srv/db"\n[cluster]\nsecret_file = "{secret}"\n')
    for text, problem in ((None, "No such file"), ("short\n", "no secret of 16 characters")):
        if text is not None:
            secret.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(path)
        (told,) = caught.value.problems
        assert told.startswith(f"{path}:4: cluster.secret_file: ")
        assert problem in told
    secret.write_text("long enough to be one\n")
    assert load(path).config.cluster.secret_file == str(secret)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("ca = '{certificate}'", "zookeeper.ca needs zookeeper.tls = true"),
        ("tls = true\nkey = '{key}'", "zookeeper.key is given without zookeeper.certificate"),
        ("tls = true\nca = '/none.pem'", "zookeeper.ca /none.pem cannot be used: No such file or directory"),
        ("tls = true\ncertificate = '{key}'\nkey = '{key}'", "zookeeper.certificate {key} cannot be used: "),
    ],
)
def test_what_zookeeper_cannot_be_shown_is_told(written, pem, lines, told):
    certificate, key = pem["own"], pem["own_key"]
    path = written("[zookeeper]\n" + lines.format(certificate=certificate, key=key) + "\n")
    with pytest.raises(ConfigError) as caught:
        load(path, flags=[DATA])
    (problem,) = caught.value.problems
    assert told.format(key=key) in problem


def test_how_a_node_reaches_zookeeper(written, pem):
    certificate, key = pem["own"], pem["own_key"]
    text = f"[zookeeper]\ntls = true\nca = '{certificate}'\ncertificate = '{certificate}'\nkey = '{key}'\n"
    config = load(written(text), flags=[DATA]).config
    wanted = ZooKeeperAccess(True, str(certificate), str(certificate), str(key))
    assert zookeeper_access(config) == wanted
    assert zookeeper_access(load(written(""), flags=[DATA]).config) == ZooKeeperAccess()
