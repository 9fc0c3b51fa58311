"""conf/server.toml has every setting with its default, and --print-config can be read back."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from herdpy_server.config import RELOADABLE, ServerConfig, documented, effective, load
from herdpy_server.config.fields import all_settings, toml
from herdpy_server.pgwire.context import PgSettings
from herdpy_server.process.front_ends import pg_settings
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_server.workers.scheduler import WorkerSettings

FILE = Path(__file__).parents[2] / "conf" / "server.toml"


def plain(value: object) -> object:
    """A value as TOML has it."""
    return msgspec.to_builtins(value)


def test_the_file_has_every_setting_and_no_other():
    tables = tomllib.loads(FILE.read_text())
    named = {f"{section}.{name}" for section, table in tables.items() for name in table}
    assert named == set(all_settings())


def test_every_value_in_the_file_is_the_default():
    loaded = load(FILE, flags=[("--data", "data.directory", "/srv/db")])
    expected = msgspec.structs.replace(
        ServerConfig(), data=msgspec.structs.replace(ServerConfig().data, directory="/srv/db")
    )
    assert loaded.config == expected
    assert set(loaded.origins) == set(all_settings())


def test_the_file_is_as_it_would_be_written_now():
    assert FILE.read_text() == documented()  # python -c "... print(documented())" writes it


def test_every_setting_says_what_it_means():
    for key, setting in all_settings().items():
        assert setting.description.endswith("."), key
        assert setting.description in " ".join(FILE.read_text().replace("\n# ", " ").split()), key


def test_settings_of_the_storage_are_those_of_a_database():
    fields = {field.name: field.default for field in dataclasses.fields(DatabaseSettings)}
    assert fields["flashback_s"] == 0.0  # a directory keeps the past where it is opened so
    fields["flashback_s"] = 600.0
    assert msgspec.structs.asdict(ServerConfig().storage) == fields


def test_settings_of_sessions_are_their_limits():
    fields = {field.name: field.default for field in dataclasses.fields(SessionLimits)}
    assert msgspec.structs.asdict(ServerConfig().sessions) == fields


def test_settings_of_workers_are_those_of_the_pool():
    fields = {field.name: field.default for field in dataclasses.fields(WorkerSettings)}
    assert msgspec.structs.asdict(ServerConfig().workers) == fields


def test_defaults_of_the_door_are_the_doors_own():
    assert pg_settings(ServerConfig()) == PgSettings()


def test_every_setting_of_the_door_can_be_set():
    config = ServerConfig()
    own = {field.name.removeprefix("tls_") for field in dataclasses.fields(PgSettings)}
    own = {name.removesuffix("_required") for name in own - {"required"}} | {"required"}
    given_names = {*msgspec.structs.asdict(config.postgres), *msgspec.structs.asdict(config.tls)}
    assert given_names - {"database"} == own  # that is for whoever the door stands before


def test_what_can_be_reloaded_are_settings():
    assert set(all_settings()) >= RELOADABLE


def test_the_values_that_hold_can_be_read_back(tmp_path):
    rules = '[{ method = "reject", network = "10.0.0.0/8" }]'
    flags = [
        ("--data", "data.directory", 'a "strange"\\place\t'),
        ("--set", "authentication.rules", rules),
        ("--set", "logging.levels", '{ "herdpy.log" = "debug" }'),
        ("--set", "storage.column_cache_bytes", "12345"),
    ]
    loaded = load(flags=flags)
    path = tmp_path / "printed.toml"
    path.write_text(effective(loaded.config, loaded.origins))
    assert load(path).config == loaded.config
    assert "column_cache_bytes = 12345  # flag --set" in path.read_text()


@given(st.text())
def test_any_text_is_written_as_toml(text):
    assert tomllib.loads(f"value = {toml(text)}") == {"value": text}


@given(st.dictionaries(st.text(), st.sampled_from(["debug", "info"])))
def test_any_table_is_written_as_toml(table):
    assert tomllib.loads(f"value = {toml(table)}") == {"value": table}
