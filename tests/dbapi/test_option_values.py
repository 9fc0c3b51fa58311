"""A value is read alike at every door: options of the driver and of Spark, settings, tablespaces, files."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.options import OPTIONS
from herdpy.options import POSTGRES_SIZES, UNITS_US, microseconds, size_bytes
from herdpy_server.config.fields import all_settings
from herdpy_server.sessions.settings import boolean, milliseconds
from herdpy_spark.options import OptionError, Options
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import parse, split
from herdpy_sql.parse.object_commands import TablespaceCommand


def of_driver(text: str) -> float:
    return float(OPTIONS["statement_timeout"].read(text)) / 1000


def of_driver_in_seconds(text: str) -> float:
    seconds = OPTIONS["connect_timeout"].read(text)
    assert isinstance(seconds, float)
    return seconds


def of_spark(text: str) -> float:
    return Options.parse({"url": "herdpy://db1/shop", "table": "t", "lease": text}, "read").lease_s


def of_tablespace(text: str) -> float:
    (statement,) = split(f"ALTER TABLESPACE t SET (retention = '{text}')")
    command = parse(statement)
    assert isinstance(command, TablespaceCommand)
    ((name, value),) = command.changes
    assert name == "retention_s"
    assert isinstance(value, float)
    return value


def of_setting(text: str) -> float:
    return milliseconds(text) / 1000


DOORS = [of_driver, of_driver_in_seconds, of_spark, of_tablespace, of_setting]


@pytest.mark.parametrize("read", DOORS)
@pytest.mark.parametrize("unit", UNITS_US)
def test_each_door_knows_each_unit(read: Callable[[str], float], unit: str) -> None:
    for amount in ("3000", " 4e3 ") if unit in ("us", "ms") else ("1.5", " 20 ", "2.e0"):
        assert read(f"{amount}{unit}") == pytest.approx(float(amount) * UNITS_US[unit] / 1e6)


@pytest.mark.parametrize("read", DOORS)
@pytest.mark.parametrize("text", ["", "soon", "5x", "1 2s", "s", "-5s", "1e999", "nan", "1,5s", "٣s"])
def test_each_door_refuses_what_is_none(read: Callable[[str], float], text: str) -> None:
    with pytest.raises((InterfaceError, ValueError, SqlError)):
        read(text)


def test_a_number_without_a_unit() -> None:
    assert [read("90") for read in DOORS] == [90.0, 90.0, 90.0, 90.0, 0.09]
    assert microseconds("-.5", "s") == -500_000


@pytest.mark.parametrize("text", ["on", "TRUE", "yes", "1"])
def test_each_door_knows_what_is_true(text: str) -> None:
    (statement,) = split(f"ALTER TABLESPACE t SET (strict = '{text}')")
    command = parse(statement)
    assert isinstance(command, TablespaceCommand)
    assert command.changes == (("strict", True),)
    assert OPTIONS["zookeeper_tls"].read(text) is True
    assert boolean(text) == "on"
    assert all_settings()["tls.required"].parse(text) is True


def test_the_driver_names_option_value_and_what_is_allowed() -> None:
    for name, value, said in (
        ("zookeeper_tls", "maybe", "option zookeeper_tls is true or false, not 'maybe'"),
        ("sslmode", "always", "option sslmode is one of disable, allow, prefer, require, verify-ca,"),
        ("keepalives_idle", "nan", "option keepalives_idle is a whole number, not 'nan'"),
        ("connect_timeout", "soon", "option connect_timeout is a number of seconds greater than 0, not"),
        ("hosts", "h:x", "option hosts: not a host and port: 'h:x'"),
        ("passfile", "/no/file", "option passfile: there is no file /no/file"),
    ):
        with pytest.raises(InterfaceError, match=re.escape(said)):
            OPTIONS[name].read(value)
    with pytest.raises(InterfaceError) as error:
        OPTIONS["password"].read("secret" * 1000)
    assert "secret" not in str(error.value)


def test_spark_names_the_nearest_option() -> None:
    with pytest.raises(OptionError, match=r"the option tabel is not known: .*; is table meant\?"):
        Options.parse({"url": "herdpy://db1/shop", "tabel": "t"}, "read")


def test_sizes_with_each_family_of_units() -> None:
    assert [size_bytes(text) for text in ("7", "1_000", "1.5 GB", "64 MiB")] == [
        7,
        1000,
        1_500_000_000,
        64 << 20,
    ]
    assert size_bytes("64mB", POSTGRES_SIZES) == 64 << 20
    for text in ("", "x", "1 XB", "-1", "1MiBs"):
        with pytest.raises(ValueError, match="bytes, or a number with a unit"):
            size_bytes(text)
