"""What HerdPy refuses is named in PostgreSQL's words: never by a class of the parser.

The corpus is in ``refusals``: statements that PostgreSQL 15 reads and HerdPy does not, with the messages, and
statements that neither reads, with PostgreSQL's own message and position.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import psycopg
import pytest
from sqlglot import expressions as exp

sys.path.insert(0, str(Path(__file__).parent))

from golden import Block, read_script, render
from runner import Session

from herdpy_sql.absent import FUNCTIONS, OPERATORS, TYPES
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.aggregates import AGGREGATES
from herdpy_sql.library import ROUTINES
from herdpy_sql.node_names import clause_refusal, refusal
from herdpy_sql.parse import split

FOLDER = Path(__file__).parent / "refusals"
REFUSED = ("commands", "definitions", "queries")
SETUP = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, b text, c numeric(10,2), d timestamp, e int[], j jsonb,"
    " u text UNIQUE)",
    "CREATE TABLE s (id int PRIMARY KEY, t_id int REFERENCES t, v int)",
    "CREATE TABLE part (id int, day date, v int) PARTITION BY RANGE (day)",
    "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
    "CREATE INDEX t_a ON t (a)",
    "CREATE VIEW w AS SELECT id, a FROM t",
    "CREATE SEQUENCE q",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE SCHEMA other",
)
CLASSES = {
    name: cls for name, cls in inspect.getmembers(exp, inspect.isclass) if issubclass(cls, exp.Expression)
}
CLASS_NAME = re.compile(
    r"\b(?:" + "|".join(one for one in CLASSES if re.search(r"[a-z][A-Z]|[A-Z]{2}[a-z]", one)) + r")\b"
)
"""The names that are no words of anybody's else: "Select" is one of SQL, too."""
LACKING = {"42704", "42883", "42P01", "42804", "42809", "25001", "26000", "34000", "22023", "0A000", "55000"}
"""What PostgreSQL says of commands about things that are not there, or that no block may have."""


@pytest.fixture(scope="module")
def session() -> Session:
    found = Session()
    for statement in SETUP:
        found.run(statement)
    return found


def blocks_of(name: str) -> list[Block]:
    return [block for block in read_script(FOLDER / f"{name}.txt") if block.expected is not None]


def said(session: Session, block: Block, *, position: bool) -> list[str]:
    try:
        session.run(block.text)
    except SqlError as error:
        place = f" @{error.position}" if position else ""
        return [f"ERROR {error.sqlstate}: {error.message}{place}"]
    return ["no refusal"]


@pytest.mark.parametrize("name", [*REFUSED, "syntax"])
def test_refusals_are_as_written(name: str, session: Session) -> None:
    path = FOLDER / f"{name}.txt"
    given = render(read_script(path), lambda block: said(session, block, position=name == "syntax"))
    assert given == path.read_text()


def test_the_corpus_is_large() -> None:
    assert sum(len(blocks_of(name)) for name in REFUSED) > 200


@pytest.mark.parametrize("name", [*REFUSED, "syntax"])
def test_no_message_of_the_corpus_names_a_class(name: str) -> None:
    for block in blocks_of(name):
        assert block.expected is not None
        assert not CLASS_NAME.search(block.expected[0]), block.text


def test_no_refusal_of_any_class_names_it() -> None:
    assert CLASS_NAME.search("MatchAgainst is not supported")
    looked_at = 0
    for cls in CLASSES.values():
        try:
            node = cls()
        except TypeError:
            continue  # an abstract one
        for error in (refusal(node), *(clause_refusal(node, argument) for argument in cls.arg_types)):
            looked_at += 1
            assert error.sqlstate in {"0A000", "42883"}
            assert not CLASS_NAME.search(error.message), error.message
    assert looked_at > 3_000


@pytest.mark.parametrize("name", REFUSED)
def test_postgres_reads_what_is_refused(name: str, postgres: str) -> None:
    wrong = []
    with psycopg.connect(postgres) as connection:
        prepare_postgres(connection)
        for block in blocks_of(name):
            if block.text.startswith(("COPY", "PREPARE TRANSACTION")):
                continue  # it would wait for rows, or end the transaction
            state = on_postgres(connection, block.text).partition(":")[0]
            must_run = block.text.startswith(("SELECT", "WITH", "CREATE TABLE x"))
            if state and (must_run or state not in LACKING):
                wrong.append((block.text, state))
        connection.rollback()
    assert not wrong


def test_syntax_errors_are_those_of_postgres(postgres: str) -> None:
    wrong = []
    with psycopg.connect(postgres) as connection:
        prepare_postgres(connection)
        for block in blocks_of("syntax"):
            found = on_postgres(connection, block.text)
            if [f"ERROR {found}"] != block.expected:
                wrong.append((block.text, found, block.expected))
        connection.rollback()
    assert not wrong


def prepare_postgres(connection: psycopg.Connection) -> None:
    connection.execute("DROP SCHEMA public CASCADE")
    connection.execute("CREATE SCHEMA public")
    connection.execute("CREATE ROLE ada")
    for statement in SETUP:
        connection.execute(statement.encode())


def on_postgres(connection: psycopg.Connection, text: str) -> str:
    """The error of a statement, with its place; "" where there is none. Nothing of it stays."""
    connection.execute("SAVEPOINT before")
    try:
        connection.execute(text.encode())
    except psycopg.Error as error:
        found = f"{error.sqlstate}: {error.diag.message_primary} @{error.diag.statement_position}"
    else:
        found = ""
    connection.execute("ROLLBACK TO before")
    return found


def test_what_is_absent_is_in_postgres_and_not_here(postgres: str) -> None:
    grammar = {
        "xmlelement",
        "xmlconcat",
        "xmlforest",
        "xmlparse",
        "xmlpi",
        "xmlroot",
        "xmlserialize",
        "xmltable",
    }
    with psycopg.connect(postgres) as connection:
        functions = {name for (name,) in connection.execute("SELECT proname FROM pg_proc").fetchall()}
        types = {name for (name,) in connection.execute("SELECT typname FROM pg_type").fetchall()}
        operators = {name for (name,) in connection.execute("SELECT oprname FROM pg_operator").fetchall()}
    assert set(FUNCTIONS) - functions <= grammar
    assert set(TYPES) <= types
    assert set(OPERATORS) - operators <= {"~<>~"}
    assert not set(FUNCTIONS) & (set(ROUTINES) | set(AGGREGATES))


@pytest.mark.parametrize("name", sorted(TYPES))
def test_no_type_that_is_absent_is_read(name: str, session: Session) -> None:
    with pytest.raises(SqlError, match="is not supported"):
        session.plan(f"SELECT NULL::{name}")


def test_the_place_of_an_absent_function(session: Session) -> None:
    (statement,) = split("SELECT 1, ts_rank(b, b) FROM t")
    with pytest.raises(SqlError) as refused:
        session.plan(statement.text)
    assert (refused.value.sqlstate, refused.value.position) == ("0A000", 11)
