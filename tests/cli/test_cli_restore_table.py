"""``herdpy restore --table``: a table comes into a living database, with all that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import herdpy
from herdpy.backup.repository import Repository
from herdpy.cli.app import app
from herdpy.cli.errors import CliError
from herdpy.cli.restored_table import parsed_name
from tests.backup.restore_histories import BackupMaker, history_of
from tests.cli.every_type import COLUMNS, DEFINITION, VALUES
from tests.support.server_process import RunningServer

TABLE = '"a b"."t ""x"" %"'
NEEDED = ['CREATE SCHEMA "a b"', "CREATE TYPE \"a b\".mood AS ENUM ('calm', 'odd')", "CREATE SEQUENCE other"]
MADE = [
    *NEEDED,
    "CREATE TABLE parent (id int PRIMARY KEY)",
    "INSERT INTO parent VALUES (1), (2)",
    f"""CREATE TABLE {TABLE} (
        id serial, number int GENERATED ALWAYS AS IDENTITY (START 7 INCREMENT 5 CYCLE),
        "n n" numeric(10, 2) DEFAULT 1.5,
        mood "a b".mood DEFAULT 'odd', moods "a b".mood[], twice int GENERATED ALWAYS AS (id * 2) STORED,
        o bigint DEFAULT nextval('other'), s text UNIQUE, x varchar(3) DEFAULT 'q' CHECK (length(x) < 4),
        at timestamptz DEFAULT now(), list int[], v vector(2), parent int REFERENCES parent ON DELETE CASCADE,
        me int, PRIMARY KEY (id), CONSTRAINT "self ref" FOREIGN KEY (me) REFERENCES {TABLE})""",
    f"CREATE INDEX \"odd index\" ON {TABLE} (lower(s) DESC, at NULLS FIRST) WHERE \"n n\" > 1",
    f"CREATE UNIQUE INDEX ON {TABLE} (number)",
    f"COMMENT ON TABLE {TABLE} IS 'it''s'",
    f"COMMENT ON COLUMN {TABLE}.\"n n\" IS 'one'",
    f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL",
    f"ALTER TABLE {TABLE} ADD CONSTRAINT later CHECK (id > 0) NOT VALID",
    f"INSERT INTO {TABLE} (s, moods, list, v, parent, me)"
    " SELECT 's' || g, '{calm}', '{1,NULL}', '[1,2]', 1 + mod(g, 2), g FROM generate_series(1, 50) g",
    f"ALTER TABLE {TABLE} DROP COLUMN list",
    f"ALTER TABLE {TABLE} ADD COLUMN late int DEFAULT 3 NOT NULL",
    "CREATE TABLE loose (k int, dropped text, j json)",
    "ALTER TABLE loose DROP COLUMN dropped",
    "INSERT INTO loose VALUES (1, '{\"a\":  1}'), (1, NULL)",
    f"CREATE TABLE every ({DEFINITION})",
    f"INSERT INTO every ({', '.join(COLUMNS)}) VALUES {', '.join(VALUES)}",
    "CREATE TABLE \"a b\".loose (other text)",
    "INSERT INTO \"a b\".loose VALUES ('of the other schema')",
]  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup in the middle of a history, and the log to its end."""
    place = tmp_path_factory.mktemp("origin")
    history = history_of(place / "db", MADE)
    maker = BackupMaker(Repository.create(str(place / "repo")), history, place)
    maker.back_up(history.entries[6].lsn, history.entries[-1].lsn)
    return place / "repo"


@pytest.fixture(scope="module")
def origin(repository: Path) -> Path:
    return repository.with_name("db")


@pytest.fixture(params=["directory", pytest.param("server", marks=pytest.mark.timeout(120))])
def living(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A living database that has what the table uses."""
    if request.param == "directory":
        make(str(tmp_path / "living"))
        yield str(tmp_path / "living")
        return
    with closing(RunningServer(tmp_path / "living")) as server:
        url = f"herdpy://ann@127.0.0.1:{server.ready().port}/default"
        make(url)
        yield url


def make(url: str) -> None:
    with herdpy.connect(url, autocommit=True) as connection:
        for text in [
            *NEEDED,
            "CREATE TABLE parent (id int PRIMARY KEY)",
            "INSERT INTO parent VALUES (1), (2)",
        ]:
            connection.execute(text)


def run(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["restore", *map(str, arguments)])
    assert done.exit_code == code, f"{done.stdout}\n{done.stderr}\n{done.exception!r}"
    return done


def shown(url: str, table: str) -> dict[str, Any]:
    """What a table looks like, and its rows."""
    of = f"'{table}'::regclass"
    with herdpy.connect(url, autocommit=True) as connection:

        def rows(text: str) -> list[Any]:
            found: list[Any] = connection.execute(text).fetchall()
            return found

        return {
            "columns": rows(
                "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,"
                " pg_get_expr(adbin, adrelid), col_description(attrelid, attnum) FROM pg_attribute a"
                " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
                f" WHERE attrelid = {of} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
            ),
            "constraints": rows(
                "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
                f" WHERE conrelid = {of} ORDER BY 1"
            ),
            "indexes": rows(
                f"SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = {of} ORDER BY 1"
            ),
            "table": rows(f"SELECT relreplident, obj_description(oid) FROM pg_class WHERE oid = {of}"),
            "sequences": rows(
                "SELECT sequencename, start_value, min_value, max_value, increment_by, cycle, last_value"
                f" FROM pg_sequences WHERE sequencename LIKE '{table.rpartition('.')[2][1:5]}%' ORDER BY 1"
            ),
            "rows": sorted(rows(f"SELECT {_texts(rows, of)} FROM {table}"), key=repr),
        }


def _texts(rows: Callable[[str], list[Any]], of: str) -> str:
    """The table's columns as texts: Python does not have every value."""
    names = rows(
        f"SELECT attname FROM pg_attribute WHERE attrelid = {of} AND attnum > 0 AND NOT attisdropped"
        " ORDER BY attnum"
    )
    return ", ".join('"{}"::text'.format(name.replace('"', '""')) for (name,) in names)


def test_a_table_comes_with_all_that_belongs_to_it(repository: Path, origin: Path, living: str) -> None:
    said = run(repository, living, "--table", TABLE, "--check-indexes").stdout
    assert "has the 50 rows" in said
    assert shown(living, TABLE) == shown(str(origin), TABLE)
    with herdpy.connect(living, autocommit=True) as connection:
        row = connection.execute(f"INSERT INTO {TABLE} (s) VALUES ('new') RETURNING id, number").fetchone()
        assert row == (51, 7 + 50 * 5)
    again = run(repository, living, "--table", TABLE, code=1)
    assert "42P07" in again.stderr
    assert "--as NAME" in again.stderr
    run(repository, living, "--table", TABLE, "--as", '"a b".second')
    second = shown(living, '"a b"."second"')
    assert second["rows"] == shown(str(origin), TABLE)["rows"]
    assert {name for name, _text in second["constraints"]} >= {"second_pkey", "second_s_key", "later"}
    with herdpy.connect(living, autocommit=True) as connection:
        row = connection.execute("INSERT INTO \"a b\".second (s) VALUES ('new') RETURNING id").fetchone()
        assert row == (51,)


@pytest.mark.parametrize("living", ["directory"], indirect=True)
def test_tables_of_two_schemas_are_kept_apart(
    repository: Path, origin: Path, living: str, tmp_path: Path
) -> None:
    where = ("--scratch", tmp_path / "scratch")
    for source, target in (("loose", "loose"), ('"a b".loose', '"a b"."loose"'), ("every", "every")):
        run(repository, living, "--table", source, *where)
        assert shown(living, target)["rows"] == shown(str(origin), target)["rows"]
        assert shown(living, target)["columns"] == shown(str(origin), target)["columns"]
    run(repository, living, "--table", '"a b".loose', "--as", "public.third", *where)
    assert shown(living, "public.third")["rows"] == [("of the other schema",)]


@pytest.mark.parametrize("living", ["directory"], indirect=True)
def test_what_is_missing_or_does_not_hold_leaves_nothing(
    repository: Path, living: str, tmp_path: Path
) -> None:
    where = ("--scratch", tmp_path / "scratch")

    def refused(statement: str, state: str, hint: str, *arguments: str) -> None:
        with herdpy.connect(living, autocommit=True) as connection:
            connection.execute(statement)
        said = run(repository, living, "--table", TABLE, *where, *arguments, code=1).stderr
        assert state in said
        assert hint in said
        with herdpy.connect(living) as connection:
            row = connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 't %'").fetchone()
            assert row == (0,)

    refused("DELETE FROM parent", "23503", "--no-foreign-keys")
    refused("DROP TABLE parent", "42P01", "--no-foreign-keys")
    refused("DROP SEQUENCE other", "42P01", "Make the table or sequence there first", "--no-foreign-keys")
    with herdpy.connect(living, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE other")
    refused('DROP TYPE "a b".mood', "42704", "Make the type there first", "--no-foreign-keys")
    refused('DROP SCHEMA "a b"', "3F000", "does not exist")
    with herdpy.connect(living, autocommit=True) as connection:
        for text in NEEDED[:2]:
            connection.execute(text)
    run(repository, living, "--table", TABLE, "--no-foreign-keys", *where)
    said = run(repository, living, "--table", "nothing", *where, code=1).stderr
    assert "no table nothing" in said
    assert 'a b."t' not in said
    assert run(repository, living, "--as", "x", code=2).stderr.startswith("error: --as")
    assert "exclude each other" in run(repository, living, "--table", "x", "--force", code=2).stderr


@pytest.mark.parametrize("living", ["directory"], indirect=True)
def test_a_scratch_directory_is_used_again(repository: Path, living: str, tmp_path: Path) -> None:
    where = ("--scratch", tmp_path / "scratch")
    run(repository, living, "--table", "loose", *where)
    assert "already" in run(repository, living, "--table", "every", *where).stderr
    said = run(repository, living, "--table", TABLE, *where, "--to-lsn", "1:0", code=1).stderr
    assert "is before the oldest backup" in said


def test_names_are_read_as_sql_has_them() -> None:
    assert parsed_name("T") == ("", "t")
    assert parsed_name('App."T.x"') == ("app", "T.x")
    assert parsed_name('"a""b".c') == ('a"b', "c")
    for text in ("", "a.b.c", 'a."b', "a.", ".b", '"a"b'):
        with pytest.raises(CliError):
            parsed_name(text)
