"""Options of connections: keywords, URLs, profiles, the environment say the same; what is wrong is named."""

from __future__ import annotations

import pytest

import herdpy
from herdpy.dbapi.address import DirectoryAddress, ServersAddress, address_of
from herdpy.dbapi.options import OPTIONS

URL = "herdpy://db1,db2:7/shop"


def options(place=URL, environment=None, **keywords):
    """What a connection to servers is asked for."""
    found = address_of(place, keywords, environment or {})
    assert isinstance(found, ServersAddress)
    return found.options


@pytest.fixture
def profiles(tmp_path):
    """Writes the file of profiles; the environment that leads there."""

    def write(text, mode=0o600):
        path = tmp_path / "herdpy" / "profiles.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return {"XDG_CONFIG_HOME": str(tmp_path)}

    return write


def test_keywords_before_the_url_before_the_profile_before_the_environment(profiles):
    environment = profiles(
        f'[shop]\nurl = "{URL}?connect_timeout=3"\nconnect_timeout = 4\nuser = "profile"\n'
        'read_level = "any"\n'
    )
    environment |= {"HERDPY_CONNECT_TIMEOUT": "5", "HERDPY_USER": "env", "HERDPY_APPLICATION_NAME": "env"}
    found = options("@shop", environment)
    assert (found.connect_timeout_s, found.user, found.application_name) == (3.0, "profile", "env")
    assert found.settings == {"herdpy.read_level": "any"}
    assert options("@shop", environment, connect_timeout=2).connect_timeout_s == 2.0
    assert options(URL, environment).connect_timeout_s == 5.0
    assert options(URL, environment).user == "env"
    assert options(URL.replace("db1", "ann@db1"), environment).user == "ann"
    assert options(URL).connect_timeout_s == 10.0


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.variable])
def test_the_environment_names_options_in_capitals(name):
    assert OPTIONS[name].variable == f"HERDPY_{name.upper()}"


def test_a_variable_that_is_wrong_is_named():
    with pytest.raises(herdpy.InterfaceError, match=r"^HERDPY_SSLMODE: option sslmode is one of disable"):
        options(environment={"HERDPY_SSLMODE": "perhaps"})


def test_an_empty_variable_says_nothing():
    assert options(environment={"HERDPY_SSLMODE": "", "HERDPY_USER": ""}).user is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connect_timeout", 0),
        ("connect_timeout", "nan"),
        ("connect_timeout", "inf"),
        ("failover_timeout", -1),
        ("request_timeout", True),
        ("statement_timeout", "1 fortnight"),
        ("statement_timeout", -1),
        ("lock_timeout", "9e99"),
        ("max_staleness", "soon"),
        ("read_level", "newest"),
        ("target", "anybody"),
        ("min_lsn", "12"),
        ("sslmode", "on"),
        ("sslrootcert", "/nowhere/ca.pem"),
        ("sslcert", "/nowhere/me.pem"),
        ("passfile", "/nowhere/pass"),
        ("keepalives_idle", "long"),
        ("keepalives", 0.5),
        ("user", ""),
        ("user", 5),
        ("application_name", "a" * 5000),
        ("password", "a\0b"),
        ("autocommit", "perhaps"),
    ],
)
def test_a_wrong_value_is_told_with_its_option(name, value):
    with pytest.raises(herdpy.InterfaceError, match=f"option {name}"):
        options(**{name: value})


def test_a_password_is_never_told():
    for wrong in ("s3cret\0", "s3cret" * 1000):
        with pytest.raises(herdpy.InterfaceError) as caught:
            options(password=wrong)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(herdpy.InterfaceError) as caught:
        herdpy.connect("postgres://ann:s3cret@host/db?password=s3cret")
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(address_of("herdpy://ann:s3cret@h/db?sslpassword=s3cret", {}, {}))


def test_an_option_that_is_not_known_may_be_a_slip():
    with pytest.raises(herdpy.InterfaceError, match="not known: conect_timeout") as caught:
        options(conect_timeout=5)
    assert caught.value.hint == "Is connect_timeout meant?"


def test_options_of_the_other_kind_are_told():
    with pytest.raises(herdpy.InterfaceError, match="create is for a database in a directory"):
        options(create=False)
    with pytest.raises(herdpy.InterfaceError, match="sslmode is for servers"):
        herdpy.connect("herdpy:shop", sslmode="require")


def test_an_option_twice_in_a_url():
    with pytest.raises(herdpy.InterfaceError, match="user appears twice"):
        options("herdpy://h/db?user=a&user=b")


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [(2, "2000"), ("2", "2000"), (0.5, "500"), ("500ms", "500"), ("2min", "120000"), ("1 h", "3600000"),
     (0, "0"), (0.0001, "1")],
)  # fmt: skip
def test_durations(given, milliseconds):
    assert options(statement_timeout=given).settings == {"statement_timeout": milliseconds}


def test_a_file_of_passwords_must_be_its_owners_alone(tmp_path):
    path = tmp_path / "pass"
    path.write_text("*:*:*:*:secret\n")
    path.chmod(0o644)
    with pytest.raises(herdpy.InterfaceError, match="option passfile: other users may read") as caught:
        options(passfile=path)
    assert caught.value.hint == f"chmod 600 {path}"
    path.chmod(0o600)
    assert options(passfile=path).libpq == {"passfile": str(path)}


def test_the_url_of_the_environment(tmp_path):
    assert options(None, {"HERDPY_URL": URL}).hosts == (("db1", 5432), ("db2", 7))
    with pytest.raises(herdpy.InterfaceError, match="no URL is given"):
        address_of(None, {}, {})


def test_options_of_sessions_are_for_directories_too(tmp_path):
    with herdpy.connect(
        tmp_path / "db", statement_timeout="2min", application_name="it's me", read_level="any"
    ) as conn:
        assert conn.info.transaction_status.name == "IDLE"
        assert conn.execute("SHOW statement_timeout").fetchone() == ("2min",)
        assert conn.execute("SHOW application_name").fetchone() == ("it's me",)
        assert conn.execute("SHOW herdpy.read_level").fetchone() == ("any",)


def test_what_the_environment_says_of_servers_is_nothing_to_a_directory():
    found = address_of("herdpy:shop", {}, {"HERDPY_USER": "ann", "HERDPY_LOCK_TIMEOUT": "3"})
    assert isinstance(found, DirectoryAddress)
    assert found.session == {"lock_timeout": "3000"}


# Profiles.


def test_a_profile_with_a_password_must_be_its_owners_alone(profiles):
    for text in (
        f'[shop]\nurl = "{URL}"\npassword = "secret"\n',
        '[shop]\nurl = "herdpy://ann:secret@db1/shop"\n',
        '[shop]\nurl = "herdpy://db1/shop?password=secret"\n',
    ):
        with pytest.raises(herdpy.InterfaceError, match="other users may read or write"):
            options("@shop", profiles(text, mode=0o640))
        assert options("@shop", profiles(text)).password == "secret"
    assert options("@shop", profiles(f'[shop]\nurl = "{URL}"\n', mode=0o644)).password is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is no profile 'shop'"),
        ("shop = 5", "there is no profile 'shop'"),
        ("[shop]", "has no url"),
        ('[shop]\nurl = "@other"', "has no url"),
        ('[shop]\nurl = "herdpy://h"\nwibble = 1', "not known: wibble"),
        ('[shop]\nurl = "herdpy://h"\n[shop.more]\na = 1', "option more is a single value"),
        ("[shop", "are no TOML"),
        ("a = 1\n" * 400_000, "more than 1048576 bytes"),
    ],
)
def test_profiles_that_are_wrong(profiles, text, told):
    with pytest.raises(herdpy.InterfaceError, match=told):
        options("@shop", profiles(text))


def test_a_profile_that_is_not_there(profiles, tmp_path):
    with pytest.raises(herdpy.InterfaceError, match=r"profiles\.toml is not there"):
        options("@shop", {"XDG_CONFIG_HOME": str(tmp_path / "none")})
    with pytest.raises(herdpy.InterfaceError, match="no profile 'shpo'") as caught:
        options("@shpo", profiles('[shop]\nurl = "herdpy://h"\n'))
    assert caught.value.hint == "Is shop meant?"


def test_a_profile_of_a_directory(profiles, tmp_path):
    environment = profiles(f'[here]\nurl = "herdpy:{tmp_path}/db"\nautocommit = true\n')
    found = address_of("@here", {}, environment)
    assert (found.path, found.autocommit) == (f"{tmp_path}/db", True)
