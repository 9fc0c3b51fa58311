"""Errors of Parse, Bind and Describe on a follower: it says what is not there once it knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from herdpy.dev import LocalCluster
from tests.replica.replicas import await_leader, connect, followers

NOWHERE = "SELECT * FROM nowhere WHERE id = %s"


@pytest.fixture
def on_a_follower(cluster: LocalCluster) -> Iterator[psycopg.Connection[Any]]:
    with connect(cluster, followers(cluster, await_leader(cluster))[0]) as connection:
        yield connection


def refusal(connection: psycopg.Connection[Any], sql: str, values: tuple[object, ...] = (1,)) -> Any:
    """What Parse, Bind and Execute of a statement are answered with."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql.encode(), values, prepare=True)
    return caught.value.diag


def test_a_follower_says_what_there_is_not(
    cluster: LocalCluster, on_a_follower: psycopg.Connection[Any]
) -> None:
    leader = await_leader(cluster)
    for sql, sqlstate in ((NOWHERE, "42P01"), ("SELECT nothing FROM t WHERE id = %s", "42703")):
        assert refusal(on_a_follower, sql).sqlstate == sqlstate
    with connect(cluster, leader) as there:
        assert refusal(there, NOWHERE).sqlstate == "42P01"
    on_a_follower.execute("SET herdpy.read_level = 'bounded'")
    assert refusal(on_a_follower, NOWHERE).sqlstate == "42P01"
    on_a_follower.execute("SET herdpy.read_level = 'any'")
    assert refusal(on_a_follower, NOWHERE).sqlstate == "42P01"


def test_other_errors_are_told_as_they_are(on_a_follower: psycopg.Connection[Any]) -> None:
    assert refusal(on_a_follower, "SELEKT %s").sqlstate == "42601"
    assert on_a_follower.execute("SELECT %s::int", (7,)).fetchone() == (7,)


def test_what_comes_after_the_error_is_skipped_up_to_sync(on_a_follower: psycopg.Connection[Any]) -> None:
    def ask() -> None:
        with on_a_follower.pipeline():
            on_a_follower.execute(NOWHERE.encode(), (1,))
            on_a_follower.execute("SELECT 1 WHERE %s", (True,))

    with pytest.raises(psycopg.Error) as caught:
        ask()
    assert caught.value.sqlstate == "42P01"
    with on_a_follower.transaction():
        on_a_follower.execute("SELECT 1")
        with pytest.raises(psycopg.errors.UndefinedTable), on_a_follower.transaction():
            on_a_follower.execute(NOWHERE.encode(), (1,))
        assert on_a_follower.execute("SELECT %s::int", (8,)).fetchone() == (8,)
