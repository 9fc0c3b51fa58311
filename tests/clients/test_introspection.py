"""What database browsers ask of the catalog (DBeaver, pgAdmin and DataGrip ask such questions) is answered.

The questions are in ``introspection``, written for these tests. Those of tables get the rows that PostgreSQL
gives; those of the server get its columns, each of a type that can be distinguished from another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.server_process import RunningServer

_DIRECTORY = Path(__file__).parent / "introspection"
_FIRST_OWN_OID = 16384


def _questions(name: str) -> list[Any]:
    found = []
    for text in (_DIRECTORY / f"{name}.sql").read_text().split(";\n"):
        titles = re.findall(r"^-- (.*)$", text, re.MULTILINE)
        if titles:
            found.append(pytest.param(text, id=titles[-1]))
    return found


def _shown(row: tuple[Any, ...]) -> list[Any]:
    """A row, with object ids of users' things all alike."""
    return ["id" if type(one) is int and one >= _FIRST_OWN_OID else one for one in row]


@pytest.fixture(scope="module")
def both(clients_server: RunningServer, clients_postgres: str) -> Iterator[tuple[Any, Any]]:
    """Connections to a server and to PostgreSQL."""
    with (
        clients_server.connect(user="herdpy") as ours,
        psycopg.connect(f"host={clients_postgres} user=herdpy dbname=clients", autocommit=True) as peer,
    ):
        for one in (ours, peer):
            one.execute("SELECT setval('lib_number', 9)")
        yield ours, peer


@pytest.mark.parametrize("question", _questions("tables"))
def test_tables_are_described_as_postgres_describes_them(both: tuple[Any, Any], question: str) -> None:
    ours, peer = (one.execute(question) for one in both)
    assert [column.name for column in ours.description] == [column.name for column in peer.description]
    assert list(map(_shown, ours)) == list(map(_shown, peer))


@pytest.mark.parametrize("question", _questions("server"))
def test_questions_about_the_server_have_the_columns_of_postgres(
    both: tuple[Any, Any], question: str
) -> None:
    ours, peer = (one.execute(question) for one in both)
    assert [column.name for column in ours.description] == [column.name for column in peer.description]
    assert all(len(row) == len(ours.description) for row in ours)
    assert all(len(row) == len(peer.description) for row in peer)


def test_answers_about_the_server(both: tuple[Any, Any]) -> None:
    ours, _ = both
    charts = dict(ours.execute(_text("a screen of figures, as JSON")).fetchall())
    assert charts["session_stats"]["Total"] >= 1
    assert list(charts["tps_stats"]) == ["Transactions", "Inserts"]
    sessions = ours.execute(_text("sessions")).fetchall()
    mine = next(row for row in sessions if row[0] == ours.info.backend_pid)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+", mine[5])
    assert mine[6] == "active"
    for one in both:  # an ACL that was changed and changed back is shown, so both have one
        one.execute("GRANT SELECT ON lib_author TO PUBLIC")
    granted = "SELECT x.grantee, x.privilege_type FROM pg_class c, aclexplode(c.relacl) x WHERE relname = %s"
    assert (0, "SELECT") in ours.execute(granted, ("lib_author",)).fetchall()
    for one in both:
        one.execute("REVOKE SELECT ON lib_author FROM PUBLIC")


def _text(title: str) -> str:
    return str(next(one.values[0] for one in _questions("server") if one.id == title))


def test_who_only_reads_may_lock_against_definitions(both: tuple[Any, Any]) -> None:
    """As pg_dump does, so that no table goes while it is copied."""
    for connection in both:
        connection.execute("BEGIN READ ONLY")
        connection.execute("LOCK TABLE lib_book IN ACCESS SHARE MODE")
        connection.execute("LOCK TABLE lib_loan IN EXCLUSIVE MODE")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM lib_loan")
        connection.execute("ROLLBACK")
