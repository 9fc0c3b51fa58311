"""ENUMs in schemas: which one a name means, and how its name is shown, as PostgreSQL has it."""

# ruff: noqa: E501 - queries are easier to read in long lines
from __future__ import annotations

import herdpy
from herdpy.dbapi import Connection
from tests.catalog.alike import Both

DEFINITIONS = [
    "CREATE SCHEMA s",
    "CREATE SCHEMA s2",
    "CREATE TYPE s.mood AS ENUM ('sad', 'ok')",
    "CREATE TYPE mood AS ENUM ('p', 'q')",
    "CREATE TYPE \"Mood\" AS ENUM ('z')",
    "CREATE TABLE t (a int PRIMARY KEY, m s.mood DEFAULT 'sad', p mood, ms s.mood[], z \"Mood\")",
    "INSERT INTO t VALUES (1, 'ok', 'q', '{ok,sad}', 'z')",
    "CREATE VIEW vv AS SELECT m, 'sad'::s.mood AS c, 'p'::mood AS d, ms FROM t WHERE m = 'ok'",
]
SHOWN = [
    "SELECT t.typname, n.nspname, t.typtype, t.typcategory FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE typname IN ('mood', '_mood', 'Mood') ORDER BY 1, 2",
    "SELECT typname, typnamespace::regnamespace, pg_type_is_visible(oid), oid::regtype FROM pg_type WHERE typname = 'mood' ORDER BY typnamespace = 2200",
    "SELECT column_name, data_type, udt_schema, udt_name FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position",
    "SELECT column_name, data_type, udt_schema, udt_name FROM information_schema.columns WHERE table_name = 'vv' ORDER BY ordinal_position",
    "SELECT attname, format_type(atttypid, atttypmod), atttypid::regtype FROM pg_attribute WHERE attrelid = 'public.t'::regclass AND attnum > 0 ORDER BY attnum",
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'public.vv'::regclass AND attnum > 0 ORDER BY attnum",
    "SELECT n.nspname, t.typname, enumlabel FROM pg_enum e JOIN pg_type t ON t.oid = enumtypid JOIN pg_namespace n ON n.oid = typnamespace ORDER BY 1, 2, enumsortorder",
    "SELECT pg_typeof(m), pg_typeof(p), pg_typeof(ms), pg_typeof(z) FROM public.t",
    "SELECT * FROM public.vv",
    "SELECT 's.mood'::regtype, 'public.mood'::regtype, 'mood'::regtype, '\"Mood\"'::regtype, 'S.MOOD[]'::regtype",
    "SELECT format_type('s.mood'::regtype, NULL), format_type('public.mood'::regtype, NULL)",
    "SELECT 'sad'::s.mood, 'p'::public.mood, CAST('ok' AS S.MOOD)",
    "SELECT 'p'::s.mood",
    "SELECT 'sad'::public.mood",
    "SELECT 'x'::\"Mood\"",
    "SELECT 'sad'::s.nope",
    "SELECT 'sad'::nos.mood",
    "SELECT 'p'::public.mood = 'sad'::s.mood",
    "SELECT 'p'::public.mood::s.mood",
    "INSERT INTO public.t VALUES (2, 'q', 'q', NULL)",
    "INSERT INTO public.t VALUES (2, 'ok', 'ok', NULL)",
    "UPDATE public.t SET m = 'p'",
    "SELECT 'sad'::s.mood, 'p'::public.mood, format_type(23, NULL)",
    "SELECT enum_range(NULL::s.mood), enum_first(NULL::public.mood)",
]
CHANGED = [
    "CREATE TYPE nos.x AS ENUM ('a')",
    "CREATE TYPE s.mood AS ENUM ('again')",
    "DROP TYPE nope",
    "DROP TYPE s.nope",
    "DROP TYPE nos.nope",
    "DROP TYPE IF EXISTS nope, nos.nope, s.nope",
    "DROP TYPE s.mood",
    "DROP TYPE mood",
    "ALTER TYPE s.mood ADD VALUE 'great'",
    "ALTER TYPE s.nope ADD VALUE 'great'",
    "ALTER TYPE nos.nope ADD VALUE 'great'",
    "ALTER TYPE s.mood RENAME VALUE 'nope' TO 'b'",
    "ALTER TYPE s.mood SET SCHEMA public",
    "ALTER TYPE s.mood SET SCHEMA nos",
    "ALTER TYPE s.mood SET SCHEMA s",
    "ALTER TYPE s.mood SET SCHEMA s2",
    "SELECT 'sad'::s2.mood",
    "SELECT 'sad'::s.mood",
    "SELECT * FROM vv",
    "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'm'",
    "ALTER TYPE s2.mood RENAME TO feeling",
    "SELECT * FROM vv",
    "SELECT m, 'sad'::s2.feeling, 'p'::mood FROM t",
    "INSERT INTO t (a) VALUES (7)",
    "SELECT a, m FROM t WHERE m < 'ok' ORDER BY a",
    "CREATE TYPE s.mood AS ENUM ('new')",
    "DROP TYPE s.mood",
    "SELECT 'new'::s.mood",
]


def test_names_of_enums_are_shown_as_postgres_shows_them(both: Both) -> None:
    both.define(*DEFINITIONS)
    assert both.differences(SHOWN) == []
    for path in ("s, public", "s", "s2, s, public"):
        both.define(f"SET search_path = {path}")
        wrong = both.differences([sql for sql in SHOWN if "pg_typeof" not in sql])
        # Errors, and pg_typeof, show a type as the search path is at first.
        assert [one for one in wrong if not one[1][0].startswith("ERROR")] == []


def test_enums_are_changed_by_the_name_that_is_meant(both: Both) -> None:
    both.define(*DEFINITIONS)
    assert both.differences(CHANGED) == []


def test_writes_along_another_path(both: Both) -> None:
    both.define(*DEFINITIONS, "SET search_path = s")
    questions = [
        "BEGIN",
        "INSERT INTO public.t VALUES (3, 'ok', 'p')",
        "ALTER TABLE public.t ADD COLUMN more mood DEFAULT 'sad'",
    ]
    questions += [
        "UPDATE public.t SET m = 'sad', more = 'ok' WHERE a = 3",
        "SELECT a, m, p, more FROM public.t ORDER BY a",
    ]
    questions += [
        "COMMIT",
        "SET search_path = public",
        "SELECT a, m, p, more FROM t ORDER BY a",
    ]
    assert both.differences(questions) == []


def test_a_schema_is_not_dropped_with_a_type_that_is_in_use(empty: Connection) -> None:
    for sql in DEFINITIONS[:7]:
        empty.execute(sql)
    for how in ("", " CASCADE"):
        try:
            empty.execute(f"DROP SCHEMA s{how}")
        except herdpy.Error as error:
            assert error.sqlstate == "2BP01"  # noqa: PT017
        else:
            raise AssertionError(how)
    assert empty.execute("SELECT m FROM t").fetchall() == [("ok",)]
