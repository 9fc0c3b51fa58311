"""The chart's first_role.py: beside each server of a cluster, of which one leads."""

from __future__ import annotations

import runpy
import secrets
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "helm" / "herdpy" / "files" / "first_role.py"
PASSWORD = "it's \\long"


@pytest.fixture
def name(world):
    """A role that is not there; dropped at the end."""
    made = f"first {secrets.token_hex(4)}"
    yield made
    with world.leader_session("herdpy") as conn:
        conn.execute(f'DROP ROLE IF EXISTS "{made}"')


def run_beside(monkeypatch, tmp_path, port, name):
    (tmp_path / "password").write_text(PASSWORD + "\n")
    monkeypatch.setenv("FIRST_ROLE", name)
    monkeypatch.setenv("FIRST_ROLE_PASSWORD_FILE", str(tmp_path / "password"))
    monkeypatch.setenv("HERDPY_POSTGRES_PORT", str(port))
    monkeypatch.setenv("HERDPY_CLUSTER_TABLESPACE", "herdpy")
    return runpy.run_path(str(SCRIPT))


def test_the_leader_makes_the_role_and_followers_wait_for_it(world, monkeypatch, tmp_path, name):
    states = world.replicas("herdpy")
    leader = next(node for node, state in states.items() if state == "leading")
    follower = next(node for node, state in states.items() if state == "following")
    script = run_beside(monkeypatch, tmp_path, world.ports[follower], name)
    assert not script["is_there"](name, PASSWORD, world.ports[follower], "herdpy")
    run_beside(monkeypatch, tmp_path, world.ports[leader], name)["main"]()
    run_beside(monkeypatch, tmp_path, world.ports[follower], name)["main"]()
    query = f"SELECT rolsuper, rolcanlogin FROM pg_roles WHERE rolname = '{name}'"
    assert world.rows(query, leader) == [{"rolsuper": True, "rolcanlogin": True}]


def test_a_role_that_is_there_is_left_as_it_is(world, monkeypatch, tmp_path, name):
    with world.leader_session("herdpy") as conn:
        conn.execute(f'CREATE ROLE "{name}" LOGIN')
    leader = next(node for node, state in world.replicas("herdpy").items() if state == "leading")
    run_beside(monkeypatch, tmp_path, world.ports[leader], name)["main"]()
    assert world.rows(f"SELECT rolsuper FROM pg_roles WHERE rolname = '{name}'", leader) == [
        {"rolsuper": False}
    ]


def test_a_server_that_does_not_answer_is_tried_again(monkeypatch, tmp_path):
    script = run_beside(monkeypatch, tmp_path, 1, "nobody")
    assert not script["is_there"]("nobody", PASSWORD, 1, "herdpy")
