"""CREATE, ALTER and DROP TABLESPACE on a real cluster: what they do, and what they refuse."""

from __future__ import annotations

import psycopg
import pytest

from tests.tablespaces.world import World


def row(world: World, name: str):
    (found,) = world.rows(f"SELECT * FROM herdpy.tablespaces WHERE name = '{name}'")
    return found


def test_a_new_tablespace_is_led_when_create_returns(world, made):
    name = made()
    with world.leader_session(name) as conn:
        conn.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        conn.execute("INSERT INTO t VALUES (1)")
    found = row(world, name)
    assert found["state"] == "led"
    assert found["leader"] == found["preferred_leader"]
    assert len(found["replicas"].split(",")) == 3


def test_create_takes_what_is_said(world, made):
    name = made(
        "WITH (leader = 'server-4', replicas = 'server-2, server-4', ensemble = 1, strict = on, "
        "retention_bytes = '16MB', retention = '12h')"
    )
    found = row(world, name)
    assert {key: found[key] for key in ("leader", "replicas", "expected_replicas", "strict")} == {
        "leader": "server-4",
        "replicas": "server-4,server-2",
        "expected_replicas": 2,
        "strict": True,
    }
    assert (found["ensemble"], found["write_quorum"], found["ack_quorum"]) == (1, 1, 1)
    assert (found["retention_bytes"], found["retention_s"]) == (16 << 20, 43_200.0)


def test_create_with_a_leader_alone_chooses_the_others(world, made):
    name = made("WITH (leader = 'server-3')")
    found = row(world, name)
    assert found["leader"] == "server-3"
    assert len(found["replicas"].split(",")) == 3


def test_leaders_of_different_tablespaces_are_on_different_servers(world, made):
    names = [made("WITH (expected_replicas = 2)") for _ in range(3)]
    assert len({world.leader(name) for name in (*names, "herdpy")}) == 4


def test_alter_sets_what_it_says_and_nothing_else(world, made):
    name = made("WITH (expected_replicas = 2)")
    before = row(world, name)
    world.run(f"ALTER TABLESPACE {name} SET (retention = 60, retention_bytes = '1kB')")
    after = row(world, name)
    changed = {key for key in before if before[key] != after[key]} - {"as_of"}
    assert changed == {"retention_s", "retention_bytes"}
    assert (after["retention_s"], after["retention_bytes"]) == (60.0, 1024)


def test_a_leader_is_chosen_and_let_go(world, made):
    name = made("WITH (leader = 'server-1', replicas = 'server-1,server-2')")
    world.run(f"ALTER TABLESPACE {name} LEADER 'server-2'")
    assert world.replicas(name) == {"server-1": "following", "server-2": "leading"}
    world.run(f"ALTER TABLESPACE {name} LEADER NONE")
    assert row(world, name)["preferred_leader"] is None
    assert row(world, name)["leader"] == "server-2"


def test_replicas_move_to_other_nodes_one_after_the_other(world, made):
    name = made("WITH (leader = 'server-1', replicas = 'server-1,server-2')")
    with world.leader_session(name) as conn:
        conn.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        conn.execute("INSERT INTO t VALUES (1), (2)")
    world.await_states(name, {"server-1": "leading", "server-2": "following"})
    world.run(f"ALTER TABLESPACE {name} REPLICAS 'server-2', 'server-3'")
    world.await_rows(
        f"SELECT node, state FROM herdpy.replicas WHERE tablespace = '{name}'",
        lambda rows: (
            sorted(row["state"] for row in rows) == ["following", "leading"]
            and {row["node"] for row in rows} == {"server-2", "server-3"}
        ),
    )
    with world.leader_session(name) as conn:
        assert conn.execute("SELECT id FROM t WHERE id = 2").fetchone() == (2,)
    world.run(f"ALTER TABLESPACE {name} LEADER 'server-3'")
    world.await_states(name, {"server-2": "following", "server-3": "leading"})
    assert {path.parts[-3] for path in world.directories(name)} >= {"server-2", "server-3"}


def test_any_node_carries_them_out(world, made):
    name = made("WITH (replicas = 'server-1,server-2', leader = 'server-1')")
    for node in world.replicas("herdpy"):  # where one can connect to it
        world.run(f"ALTER TABLESPACE {name} SET (retention = {node[-1]})", node)
        assert row(world, name)["retention_s"] == float(node[-1])


def test_what_exists_or_is_gone_is_told_where_that_was_asked_for(world, made):
    name = made()
    told = world.run(f"CREATE TABLESPACE IF NOT EXISTS {name}")
    assert told == [f'NOTICE: tablespace "{name}" already exists, skipping']
    assert world.run("DROP TABLESPACE IF EXISTS nothing") == [
        'NOTICE: tablespace "nothing" does not exist, skipping'
    ]


def test_more_than_there_is_warns(world, made):
    name = made("WITH (expected_replicas = 2)")
    assert world.run(f"ALTER TABLESPACE {name} SET (expected_replicas = 9)") == [
        "WARNING: 9 replicas are expected, and there are 4 nodes"
    ]
    told = world.run(f"ALTER TABLESPACE {name} SET (ensemble = 2)")
    assert told[0].startswith("WARNING: only 1 bookies take writes: ledgers are smaller")


REFUSED = [
    ("CREATE TABLESPACE herdpy", "42710"),
    ('CREATE TABLESPACE "a b"', "42602"),
    ('CREATE TABLESPACE ""', "42602"),
    (f"CREATE TABLESPACE {'x' * 64}", "42602"),
    ("CREATE TABLESPACE n WITH (leader = 'server-9')", "42704"),
    ("CREATE TABLESPACE n WITH (replicas = 'server-1,server-9')", "42704"),
    ("CREATE TABLESPACE n WITH (replicas = 'server-1,server-1')", "22023"),
    ("CREATE TABLESPACE n WITH (replicas = 'server-1', leader = 'server-2')", "22023"),
    ("CREATE TABLESPACE n WITH (replicas = 'no such/id')", "42602"),
    ("CREATE TABLESPACE n WITH (ensemble = 1, write_quorum = 2)", "22023"),
    ("CREATE TABLESPACE n WITH (ensemble = 3, write_quorum = 2, ack_quorum = 3)", "22023"),
    ("CREATE TABLESPACE n WITH (ensemble = 3, write_quorum = 3, ack_quorum = 2)", "53000"),
    ("CREATE TABLESPACE n WITH (ensemble = 2, write_quorum = 1, ack_quorum = 1, strict = on)", "53000"),
    ("CREATE TABLESPACE n WITH (expected_replicas = 0)", "22023"),
    ("CREATE TABLESPACE n WITH (ensemble = 0)", "22023"),
    ("CREATE TABLESPACE n WITH (retention = '100000d')", "22023"),
    ("ALTER TABLESPACE nothing SET (retention = 1)", "42704"),
    ("ALTER TABLESPACE {t} LEADER 'server-9'", "42704"),
    ("ALTER TABLESPACE {t} LEADER 'server-3'", "22023"),
    ("ALTER TABLESPACE {t} REPLICAS 'server-9'", "42704"),
    ("ALTER TABLESPACE {t} REPLICAS ''", "22023"),
    ("ALTER TABLESPACE {t} REPLICAS 'server-3', 'server-4'", "55000"),
    ("ALTER TABLESPACE {t} SET (ack_quorum = 2)", "22023"),
    ("ALTER TABLESPACE {t} SET (ensemble = 101)", "22023"),
    ("DROP TABLESPACE nothing", "42704"),
    ("DROP TABLESPACE herdpy", "55006"),
]


@pytest.fixture(scope="module")
def kept(world):
    world.run("CREATE TABLESPACE kept WITH (replicas = 'server-1,server-2', leader = 'server-1')")
    yield "kept"
    world.run("DROP TABLESPACE IF EXISTS kept")


@pytest.mark.parametrize(("statement", "state"), REFUSED, ids=lambda one: one if len(one) < 70 else "long")
def test_what_cannot_work_is_refused_and_changes_nothing(world, kept, statement, state):
    query = "SELECT name, preferred_leader, replicas, ensemble, ack_quorum FROM herdpy.tablespaces ORDER BY 1"
    before = world.rows(query)
    with world.connect() as conn:
        with pytest.raises(psycopg.Error) as raised:
            conn.execute(statement.format(t=kept).encode())
        assert raised.value.sqlstate == state
        assert conn.execute("SELECT 1").fetchone() == (1,)
    assert world.rows(query) == before


def test_the_tablespace_that_one_is_connected_to_stays(world, kept):
    with world.connect(database=kept) as conn, pytest.raises(psycopg.errors.ObjectInUse):
        conn.execute(f"DROP TABLESPACE {kept} WITH (FORCE)".encode())


def test_they_are_no_part_of_a_transaction(world, kept):
    with world.connect() as conn:
        conn.execute("BEGIN")
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            conn.execute("DROP TABLESPACE kept")
        conn.execute("ROLLBACK")
        conn.execute("SET default_transaction_read_only = on")
        with world.leader_session("herdpy") as leader:
            leader.execute("SET default_transaction_read_only = on")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                leader.execute("DROP TABLESPACE kept")


def test_only_superusers_may(world, kept):
    node = "server-1"
    with world.role("weak", node), world.connect(node, user="weak") as conn:
        for statement in (
            f"ALTER TABLESPACE {kept} LEADER 'server-2'",
            "CREATE TABLESPACE n",
            "DROP TABLESPACE x",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement.encode())
        assert conn.execute("SELECT count(*) FROM herdpy.settings WHERE scope = 'server'").fetchone() == (0,)
