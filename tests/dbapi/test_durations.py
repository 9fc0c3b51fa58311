"""A duration is the same at every door: options of the driver and of Spark, settings, tablespaces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.options import OPTIONS
from herdpy.durations import UNITS_US, microseconds
from herdpy_server.sessions.known_settings import milliseconds
from herdpy_spark.options import Options
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import parse, split
from herdpy_sql.parse.object_commands import TablespaceCommand


def of_driver(text: str) -> float:
    return float(OPTIONS["statement_timeout"].read("statement_timeout", text)) / 1000


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


DOORS = [of_driver, of_spark, of_tablespace, of_setting]


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
    assert [read("90") for read in DOORS] == [90.0, 90.0, 90.0, 0.09]
    assert microseconds("-.5", "s") == -500_000
