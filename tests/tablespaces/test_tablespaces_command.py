"""`herdpy status` and `herdpy tablespace` on a cluster: tables, JSON, exit codes, words about what to do."""

from __future__ import annotations

import json

import pytest

from herdpy.cli.status import duration, problems_of, problems_of_archive, size


@pytest.fixture
def name(world):
    yield "of_command"
    world.run("DROP TABLESPACE IF EXISTS of_command")


def test_a_tablespace_from_its_making_to_its_end(world, run_command, name):
    url = world.url()
    told = run_command(
        "tablespace", "create", url, name, "--leader", "server-1", "--replicas", "server-1,server-2",
        "--retention", "12h", "--strict", "--ensemble", "1",
    )  # fmt: skip
    assert f"Tablespace {name} is made" in told.stderr
    world.await_states(name, {"server-1": "leading", "server-2": "following"})
    led = json.loads(run_command("tablespace", "leader", url, name, "server-2", "--json").stdout)
    assert led["tablespace"]["leader"] == "server-2"
    assert led["statement"] == f"ALTER TABLESPACE \"{name}\" LEADER 'server-2'"
    told = run_command("tablespace", "alter", url, name, "--leader", "none", "--not-strict")
    assert "NOTICE: ensemble, quorums and strict" in told.stderr
    listed = json.loads(run_command("tablespace", "ls", url, "--json").stdout)
    (found,) = [row for row in listed if row["name"] == name]
    assert (found["preferred_leader"], found["strict"], found["retention_s"]) == (None, False, 43_200.0)
    assert name in run_command("tablespace", "ls", url).stdout
    world.await_states(name, {"server-1": "following", "server-2": "leading"})
    checked = json.loads(run_command("tablespace", "check", url, name, "--json").stdout)
    assert {(row["node"], row["same"]) for row in checked} == {("server-1", True), ("server-2", True)}
    dropped = json.loads(run_command("tablespace", "drop", url, name, "--yes", "--json").stdout)
    assert (dropped["tablespace"], dropped["remarks"]) == (None, [])
    again = json.loads(run_command("tablespace", "drop", url, name, "--yes", "--if-exists", "--json").stdout)
    assert [remark["severity"] for remark in again["remarks"]] == ["NOTICE"]


def leaders(world):
    query = "SELECT name, leader, preferred_leader FROM herdpy.tablespaces"
    return {row["name"]: (row["leader"], row["preferred_leader"]) for row in world.rows(query)}


def test_a_node_hands_over_all_that_it_leads(world, run_command, made):
    replicas = "WITH (replicas = 'server-1,server-2,server-3', leader = 'server-2')"
    prefers_it, prefers_none = made(replicas), made(replicas)
    world.run(f"ALTER TABLESPACE {prefers_none} LEADER NONE")
    for name in (prefers_it, prefers_none):
        world.await_states(name, {"server-1": "following", "server-2": "leading", "server-3": "following"})
    answer = json.loads(run_command("tablespace", "hand-over", world.url(), "server-2", "--json").stdout)
    led_by = {row["tablespace"]: row["leader"] for row in answer}
    assert {prefers_it, prefers_none} <= led_by.keys()
    assert all(row["problem"] is None for row in answer)
    found = leaders(world)
    assert all(leader != "server-2" for leader, _preferred in found.values())
    assert found[prefers_it] == (led_by[prefers_it], led_by[prefers_it])
    assert found[prefers_none] == (led_by[prefers_none], None)
    again = run_command("tablespace", "hand-over", world.url(), "server-2")
    assert "Node server-2 leads nothing." in again.stderr


def test_a_node_without_followers_keeps_what_it_leads_and_the_rest_moves(world, run_command, made):
    alone = made("WITH (replicas = 'server-4', expected_replicas = 1, leader = 'server-4')")
    other = made("WITH (replicas = 'server-1,server-4', leader = 'server-4')")
    world.await_states(other, {"server-1": "following", "server-4": "leading"})
    answer = run_command("tablespace", "hand-over", world.url(), "server-4", code=1)
    assert f"Tablespace {alone} is still led by server-4: no other replica follows it" in answer.stderr
    assert f"Tablespace {other} is led by server-1" in answer.stderr
    assert leaders(world)[alone] == ("server-4", "server-4")


def test_status_shows_the_cluster(world, run_command):
    query = "SELECT state FROM herdpy.replicas WHERE tablespace = 'herdpy'"
    wanted = ["following"] * (len(world.ports) - 1) + ["leading"]
    world.await_rows(query, lambda rows: sorted(row["state"] for row in rows) == wanted)
    shown = run_command("status", world.url()).stdout
    for node in world.ports:
        assert node in shown
    found = json.loads(run_command("status", world.url(), "--json").stdout)
    assert [node["node"] for node in found["nodes"]] == sorted(world.ports)
    (herdpy,) = [one for one in found["tablespaces"] if one["name"] == "herdpy"]
    assert sorted(row["state"] for row in herdpy["replicas"]) == wanted
    assert found["problems"] == []
    assert found["as_of"]


def test_status_asks_any_server_that_is_there(world, run_command):
    follower = next(node for node, state in world.replicas("herdpy").items() if state == "following")
    url = f"herdpy://127.0.0.1:1,127.0.0.1:{world.ports[follower]}/herdpy"
    assert json.loads(run_command("status", url, "--json").stdout)["nodes"]


def test_status_fails_where_something_is_wrong(world, run_command, name):
    run_command("tablespace", "create", world.url(), name, "--expected-replicas", "9")
    told = run_command("status", world.url(), code=1)
    assert f"problem: {name} has 4 of 9 replicas" in told.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("status", "herdpy://127.0.0.1:1/herdpy"), 1, "no server lets us in"),
        (("status", "/tmp/no-database"), 1, "there is no database in"),
        (("status", "mysql://x/y"), 2, "not a HerdPy URL"),
        (("tablespace", "alter", "URL", "herdpy"), 2, "nothing is to be changed"),
        (("tablespace", "drop", "URL", "herdpy"), 2, "--yes"),
        (("tablespace", "drop", "URL", "herdpy", "--yes"), 1, "55006"),
        (("tablespace", "create", "URL", "a b"), 1, "42602"),
        (("tablespace", "create", "URL", "herdpy"), 1, "42710"),
        (("tablespace", "create", "URL", "n", "--retention", "soon"), 1, "22023"),
        (("tablespace", "leader", "URL", "herdpy", "server-9"), 1, "The nodes of this cluster are server-1"),
        (("tablespace", "leader", "URL", "nothing", "server-1"), 1, "42704"),
        (("tablespace", "hand-over", "URL", "ser'ver"), 1, "there is no node ser'ver here"),
        (("tablespace", "create", "URL", "x\"; DROP TABLESPACE herdpy WITH (FORCE); --"), 1, "42602"),
    ],
)  # fmt: skip
def test_failures_say_what_to_do(world, run_command, arguments, code, said):
    told = run_command(*(world.url() if one == "URL" else one for one in arguments), code=code)
    assert said in told.stderr
    assert "Traceback" not in told.stderr


ALL_WELL = {
    "name": "t", "state": "led", "leader": "a", "preferred_leader": None, "expected_replicas": 2,
    "replicas": [
        {"node": "a", "state": "leading", "is_wanted": True, "lag_entries": 0},
        {"node": "b", "state": "following", "is_wanted": True, "lag_entries": 7},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"state": "dropping"}, ["being dropped"]),
        ({"leader": None}, ["has no leader"]),
        ({"preferred_leader": "b"}, ["is led by a, not by b"]),
        ({"expected_replicas": 3}, ["has 2 of 3 replicas"]),
        ({"state": "alone", "leader": None}, []),
    ],
)
def test_problems_of_a_tablespace(change, said):
    found = list(problems_of({**ALL_WELL, **change}))
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": "away"}, "node b is away"),
        ({"state": "seeding"}, "the replica on b is seeding"),
        ({"lag_entries": 1001}, "1001 entries behind"),
        (
            {"problem": "its log is written to 2 bookies of 3"},
            "on b reports: its log is written to 2 bookies",
        ),
    ],
)
def test_problems_of_a_replica(change, said):
    first, second = ALL_WELL["replicas"]
    (found,) = problems_of({**ALL_WELL, "replicas": [first, {**second, **change}]})
    assert said in found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"state": "late"}, ["s: its log was archived last 40 s ago"]),
        ({"state": "failing", "problem": "no space"}, ["archived last 40 s ago: no space"]),
        ({"gaps": 1, "gap_after": "3:4", "gap_upto": "5:6"}, ["entries after 3:4, up to 5:6, are missing"]),
    ],
)
def test_problems_of_an_archive(change, said):
    well = {"tablespace": "s", "state": "archiving", "lag_s": 40.0, "problem": None, "gaps": 0}
    found = list(problems_of_archive({**well, **change}))
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True))


def test_amounts_are_short():
    assert [size(count) for count in (None, 0, 1023, 1024, 256 << 20, 3 << 40)] == [
        "-", "0 B", "1023 B", "1 kB", "256 MB", "3 TB",
    ]  # fmt: skip
    assert [duration(s) for s in (0.0, 59.0, 60.0, 119.0, 120.0, 7200.0, 86_400.0)] == [
        "0 s", "59 s", "1 min", "119 s", "2 min", "2 h", "1 d",
    ]  # fmt: skip
