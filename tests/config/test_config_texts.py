"""Settings out of text, as flags and the environment have them: sizes, lists, rules."""

from __future__ import annotations

import msgspec
import pytest

from herdpy_server.config import load
from herdpy_server.config.fields import all_settings, parse_size, size_text
from tests.config.kit import DATA


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
