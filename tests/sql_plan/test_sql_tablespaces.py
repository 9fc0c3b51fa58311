"""The grammar of CREATE, ALTER and DROP TABLESPACE, and where there is no cluster to carry them out."""

from __future__ import annotations

import pytest

import herdpy
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import parse, split
from herdpy_sql.parse.object_commands import TablespaceCommand


def command(sql: str) -> TablespaceCommand:
    (statement,) = split(sql)
    parsed = parse(statement)
    assert isinstance(parsed, TablespaceCommand)
    return parsed


@pytest.mark.parametrize(
    ("sql", "name", "options", "tablespace", "changes"),
    [
        ("create tablespace Sales", "CREATE TABLESPACE", (), "sales", {}),
        ('CREATE TABLESPACE IF NOT EXISTS "Sales"', "CREATE TABLESPACE", ("IF NOT EXISTS",), "Sales", {}),
        (
            "CREATE TABLESPACE t WITH (replicas = 'a, b,,c', leader = b, strict = on)",
            "CREATE TABLESPACE", (), "t", {"replicas": ("a", "b", "c"), "leader": "b", "strict": True},
        ),
        (
            "CREATE TABLESPACE t WITH (expected_replicas=3, ensemble = 3, write_quorum=2 , ack_quorum='2')",
            "CREATE TABLESPACE", (), "t",
            {"expected_replicas": 3, "ensemble": 3, "write_quorum": 2, "ack_quorum": 2},
        ),
        (
            "ALTER TABLESPACE t SET (retention_bytes = '1.5 MB', retention = '2d', strict = 'FALSE')",
            "ALTER TABLESPACE", (), "t",
            {"retention_bytes": 1_572_864, "retention_s": 172_800.0, "strict": False},
        ),
        ("ALTER TABLESPACE t SET (retention_bytes = '7kB', retention = 90)", "ALTER TABLESPACE", (), "t",
         {"retention_bytes": 7168, "retention_s": 90.0}),
        (
            "ALTER TABLESPACE t SET (snapshot_url = ' s3://b/p ', snapshot_interval = '1h',"
            " snapshot_keep = 3, snapshot_history = '1d')",
            "ALTER TABLESPACE", (), "t",
            {"snapshot_url": "s3://b/p", "snapshot_interval_s": 3600.0, "snapshot_keep": 3,
             "snapshot_history_s": 86_400.0},
        ),
        ("ALTER TABLESPACE t SET (snapshot_url = '')", "ALTER TABLESPACE", (), "t", {"snapshot_url": ""}),
        ("ALTER TABLESPACE t LEADER 'db-1'", "ALTER TABLESPACE", (), "t", {"leader": "db-1"}),
        ("ALTER TABLESPACE t LEADER default", "ALTER TABLESPACE", (), "t", {"leader": None}),
        ("ALTER TABLESPACE t SET (leader = none)", "ALTER TABLESPACE", (), "t", {"leader": None}),
        ("ALTER TABLESPACE t REPLICAS a, 'b,c'", "ALTER TABLESPACE", (), "t", {"replicas": ("a", "b", "c")}),
        ("DROP TABLESPACE t", "DROP TABLESPACE", (), "t", {}),
        ("DROP TABLESPACE IF EXISTS t WITH (force)", "DROP TABLESPACE", ("IF EXISTS", "FORCE"), "t", {}),
    ],
)  # fmt: skip
def test_what_is_said(sql, name, options, tablespace, changes):
    found = command(sql)
    assert (found.name, found.options, found.tablespace) == (name, options, tablespace)
    assert dict(found.changes) == changes


@pytest.mark.parametrize(
    ("sql", "state", "position"),
    [
        ("CREATE TABLESPACE", "42601", 18),
        ("CREATE TABLESPACE 'x'", "42601", 19),
        ("CREATE TABLESPACE t WITH", "42601", 25),
        ("CREATE TABLESPACE t WITH ()", "42601", 27),
        ("CREATE TABLESPACE t WITH (ensemble)", "42601", 35),
        ("CREATE TABLESPACE t WITH (ensemble = 3", "42601", 39),
        ("CREATE TABLESPACE t WITH (ensemble = 3) x", "42601", 41),
        ("CREATE TABLESPACE t WITH (ensemble = 3, ensemble = 3)", "42601", 41),
        ("CREATE TABLESPACE t WITH (shape = 3)", "22023", 27),
        ("CREATE TABLESPACE t WITH (ensemble = three)", "22023", 38),
        ("CREATE TABLESPACE t WITH (ensemble = -1)", "22023", 38),
        ("CREATE TABLESPACE t WITH (strict = 2)", "22023", 36),
        ("CREATE TABLESPACE t WITH (retention_bytes = '1 parsec')", "22023", 45),
        ("CREATE TABLESPACE t WITH (retention = '1 fortnight')", "22023", 39),
        ("CREATE TABLESPACE t WITH (snapshot_keep = '1h')", "22023", 43),
        ("CREATE TABLESPACE t LOCATION '/x'", "0A000", 21),
        ("CREATE TABLESPACE t OWNER ann", "0A000", 21),
        ("ALTER TABLESPACE t", "42601", 19),
        ("ALTER TABLESPACE t RENAME TO u", "0A000", 20),
        ("ALTER TABLESPACE t LEADER", "42601", 26),
        ("ALTER TABLESPACE t REPLICAS a,", "42601", 31),
        ("DROP TABLESPACE a, b", "42601", 18),
        ("DROP TABLESPACE a CASCADE", "42601", 19),
        ("DROP TABLESPACE a WITH (WAIT)", "42601", 24),
    ],
)
def test_what_is_wrong_is_told_where_it_is(sql, state, position):
    with pytest.raises(SqlError) as raised:
        command(sql)
    assert (raised.value.sqlstate, raised.value.position) == (state, position)


@pytest.mark.parametrize(
    "sql", ["CREATE TABLESPACE t", "ALTER TABLESPACE t LEADER a", "DROP TABLESPACE IF EXISTS t"]
)
def test_a_database_alone_has_none(tmp_path, sql):
    with herdpy.connect(tmp_path / "db") as conn:
        conn.autocommit = True
        with pytest.raises(herdpy.OperationalError, match="not part of a cluster") as raised:
            conn.execute(sql)
        assert raised.value.sqlstate == "55000"
        assert "docs/operations.md" in raised.value.hint
        assert conn.execute("SELECT 1").fetchone() == (1,)
