"""DESCRIBE, SHOW TABLES and the like, as clients of other databases ask: queries over information_schema."""

from __future__ import annotations

import re

from herdpy_sql.parse.lexer import Statement, TokenCursor
from herdpy_sql.quoting import quote_ident

_ASKED = re.compile(
    r"(?:DESCRIBE|DESC)\s+(?!\s*$)|SHOW\s+(?:TABLES|DATABASES|SCHEMAS|COLUMNS|VIEWS)\b", re.IGNORECASE
)
_MINE = "table_schema NOT IN ('pg_catalog', 'information_schema', 'herdpy')"
_LISTS = {
    "TABLES": "SELECT table_schema, table_name FROM information_schema.tables"
    f" WHERE {_MINE} AND table_type <> 'VIEW' ORDER BY table_schema, table_name",
    "VIEWS": "SELECT table_schema, table_name AS view_name FROM information_schema.tables"
    f" WHERE {_MINE} AND table_type = 'VIEW' ORDER BY table_schema, table_name",
    "DATABASES": "SELECT datname AS database_name FROM pg_catalog.pg_database ORDER BY datname",
    "SCHEMAS": "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name",
}


def described(statement: Statement) -> Statement:
    """The query that such a statement stands for; any other statement as it is. SqlError 42601."""
    if statement.keyword not in {"DESCRIBE", "DESC", "SHOW"} or not _ASKED.match(statement.clean):
        return statement
    cursor = TokenCursor(statement)
    if statement.keyword == "SHOW":
        what = cursor.name().upper()
        if what != "COLUMNS":
            cursor.done()
            return _query(_LISTS[what])
        if not cursor.accept("FROM"):
            raise cursor.fail()
    else:
        cursor.accept("TABLE")
    name = cursor.name()
    schema = None
    if cursor.accept("."):
        schema, name = name, cursor.name()
    cursor.done()
    where = f"attrelid = {_text((f'{quote_ident(schema)}.' if schema else '') + quote_ident(name))}::regclass"
    return _query(
        "SELECT attname AS column_name, format_type(atttypid, atttypmod) AS data_type,"
        " CASE WHEN attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,"
        " (SELECT adbin FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum) AS column_default"
        f" FROM pg_attribute WHERE {where} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )


def _query(text: str) -> Statement:
    return Statement(text, text, 0, "SELECT")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
