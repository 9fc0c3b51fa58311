"""Options of the data source: checked all at once, with errors that say what there is."""

from __future__ import annotations

import pytest

from herdpy.log.lsn import LSN
from herdpy_spark.options import OptionError, Options, definitions

TABLE = {"url": "herdpy://h/t", "table": "orders"}


def test_names_are_taken_in_any_case():
    options = Options.parse({"URL": "herdpy://h/t", "Table": "orders", "NUMPARTITIONS": "7", "From": "LOG"})
    assert (options.url, options.table, options.partitions, options.source) == (
        "herdpy://h/t",
        "orders",
        7,
        "log",
    )


def test_an_option_that_is_not_known_is_told_with_those_that_are():
    with pytest.raises(OptionError, match=r"the option tabel is not known: .* table, query, dbtable"):
        Options.parse({"url": "herdpy://h/t", "tabel": "orders"})
    with pytest.raises(OptionError, match=r"the option loadId is not for spark\.read: spark\.read has url"):
        Options.parse({**TABLE, "loadId": "a"}, "read")
    assert Options.parse({**TABLE, "loadId": "a"}, "write").load_id == "a"


@pytest.mark.parametrize(
    ("use", "given", "meant"),
    [
        ("read", "colums", "columns"),
        ("write", "loadid2", "loadId"),
        ("stream", "maxEntriesPerTriger", "maxEntriesPerTrigger"),
        (None, "snapshots", "snapshot"),
    ],
)
def test_the_nearest_option_of_the_same_call_is_named(use, given, meant):
    with pytest.raises(OptionError, match=rf"the option {given} is not known: .*; is {meant} meant\?"):
        Options.parse({**TABLE, given: "a"}, use)


def test_an_option_of_another_call_is_not_what_is_meant():
    with pytest.raises(OptionError) as caught:
        Options.parse({**TABLE, "loadid2": "a"}, "read")
    assert "meant" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("latest", "latest"),
        ("LATEST", "latest"),
        ("12:34", LSN(12, 34)),
        ("-1:-1", LSN(-1, -1)),
        ("2026-03-01T08:00:00Z", 1_772_352_000_000_000),
        ("2026-03-01 09:00:00.000001+01:00", 1_772_352_000_000_001),
        ("2026-03-01 08:00:00", 1_772_352_000_000_000),
    ],
)
def test_positions(text, value):
    assert Options.parse({**TABLE, "snapshot": text}).snapshot == value


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("snapshot", "soon", "takes latest, an LSN"),
        ("snapshot", "1:2:3", "takes latest, an LSN"),
        ("numPartitions", "0", "takes a whole number from 1 to 1024, not '0'"),
        ("numPartitions", "1025", "takes a whole number"),
        ("numPartitions", "²", "takes a whole number"),
        ("from", "leader", "takes one of replica, log"),
        ("lease", "never", "takes a duration"),
        ("lease", "0", "takes a duration"),
        ("columns", "a,,b", "takes names of columns"),
        ("columns", "a, a", "takes each column once"),
        ("mode", "merge", "takes one of append, upsert, ignore, delete"),
        ("loadId", "ö" * 33, "takes 1 to 64 bytes"),
        ("where", " ", "takes a text that is not empty"),
    ],
)
def test_values_that_an_option_does_not_take(name, text, says):
    with pytest.raises(OptionError, match=f"the option {name} {says}"):
        Options.parse({**TABLE, name: text})


def test_columns_may_be_quoted():
    assert Options.parse({**TABLE, "columns": 'a, "b, c" ,"d""e"'}).columns == ("a", "b, c", 'd"e')


def test_durations_have_units():
    texts = {"90": 90.0, "1.5s": 1.5, "10 min": 600.0, "1h": 3600.0, "200ms": 0.2}
    assert {text: Options.parse({**TABLE, "lease": text}).lease_s for text in texts} == texts


def test_what_is_missing_or_contradicts_itself():
    for given, says in (
        ({"table": "t"}, "the option url is missing"),
        ({"url": "herdpy://h/t"}, "either the option table or the option query"),
        ({**TABLE, "query": "SELECT 1"}, "either the option table or the option query"),
        ({"url": "u", "query": "SELECT 1", "where": "a = 1"}, "the option where is for tables"),
        ({"url": "u", "query": "SELECT 1", "numPartitions": "2"}, "the option numPartitions is for tables"),
    ):
        with pytest.raises(OptionError, match=says):
            Options.parse(given)


@pytest.mark.parametrize(
    ("text", "table", "query"),
    [
        ("Orders", "orders", None),
        ("App.Orders", '"app"."orders"', None),
        ('"App"."The ""Orders"""', '"App"."The ""Orders"""', None),
        ('"app.t"', '"app.t"', None),
        ("(SELECT 1 AS a) AS s", None, "SELECT * FROM (SELECT 1 AS a) AS s"),
    ],
)
def test_a_table_has_the_name_that_jdbc_takes_too(text, table, query):
    options = Options.parse({"url": "u", "DBTABLE": text})
    assert (options.table, options.query) == (table, query)


def test_names_of_jdbc_that_are_none_or_are_given_twice():
    for name in ("a.b.c", "a b", "1a", '""', "a; DROP TABLE b"):
        with pytest.raises(OptionError, match="the option dbtable takes "):
            Options.parse({"url": "u", "dbtable": name})
    for name in ("table", "query"):
        with pytest.raises(OptionError, match="one of them says what is meant"):
            Options.parse({"url": "u", "dbtable": "t", name: "t"})
    with pytest.raises(OptionError, match=r"a SELECT is not for df\.write"):
        Options.parse({"url": "u", "dbtable": "(SELECT 1) AS t"}, "write")


def test_steps_of_a_column_are_said_as_a_whole():
    whole = {"partitionColumn": "id", "lowerBound": "1", "upperBound": "9", "numPartitions": "3"}
    assert Options.parse({**TABLE, **whole}).partition_column == "id"
    for name in ("lowerBound", "upperBound", "numPartitions"):
        with pytest.raises(OptionError, match="the option partitionColumn needs lowerBound, upperBound and"):
            Options.parse({**TABLE, **{key: text for key, text in whole.items() if key != name}})


def test_a_password_is_not_shown():
    assert "secret" not in repr(Options.parse({**TABLE, "password": "secret"}))


def test_the_beginning_of_a_stream_tells_that_it_is_one():
    assert Options.parse({**TABLE, "startingOffsets": "earliest"}).is_feed
    assert not Options.parse(TABLE).is_feed


def test_every_option_says_what_it_is_for():
    assert all(one.says and one.uses for one, _default in definitions())
