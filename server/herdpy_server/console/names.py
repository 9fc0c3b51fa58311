"""What the editor completes: keywords, schemas, relations with columns, functions, as the role sees them.

Below the editor's page. Bounded: a database with more names than that is completed in part.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from herdpy_server.console.gateway import PageSession

_MOST_RELATIONS = 5000
_MOST_COLUMNS = 50_000
_RELATIONS = """
SELECT c.oid::int8 AS oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
       pg_table_is_visible(c.oid) AS is_visible
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'S', 'p', 'f') AND n.nspname NOT IN ('pg_toast')
ORDER BY n.nspname IN ('pg_catalog', 'information_schema', 'herdpy'), n.nspname, c.relname
"""
_COLUMNS = """
SELECT a.attrelid::int8 AS oid, a.attname AS name
FROM pg_attribute a WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
_AGGREGATES = """
array_agg avg bool_and bool_or coalesce count dense_rank every first_value greatest lag last_value lead least
max min nth_value ntile nullif percent_rank rank row_number stddev string_agg sum variance
"""
_KEYWORDS = """
ADD ALL ALTER ANALYZE AND ANY AS ASC BEGIN BETWEEN BY CASCADE CASE CAST CHECK CHECKPOINT COLUMN COMMENT COMMIT
CONFLICT CONSTRAINT COPY CREATE CROSS DATABASE DEFAULT DELETE DESC DISTINCT DO DROP ELSE END EXCEPT EXISTS
EXPLAIN FALSE FETCH FIRST FOR FOREIGN FROM FULL GENERATED GRANT GROUP HAVING IF ILIKE IN INDEX INNER INSERT
INTERSECT INTERVAL INTO IS JOIN KEY LAST LATERAL LEFT LIKE LIMIT NOT NOTHING NULL NULLS OFFSET ON OR ORDER
OUTER OVER PARTITION PRIMARY RECURSIVE REFERENCES RENAME RETURNING REVOKE RIGHT ROLE ROLLBACK SCHEMA SELECT
SEQUENCE SET SHOW TABLE THEN TO TRANSACTION TRUE TRUNCATE UNION UNIQUE UPDATE USING VALUES VIEW WHEN WHERE
WITH
"""
_RESERVED = frozenset(_KEYWORDS.split())


async def names_of(session: PageSession) -> dict[str, Any]:
    """The names, each as it is written in SQL."""
    relations = (await session.run(_RELATIONS, max_rows=_MOST_RELATIONS)).records
    columns: dict[int, list[str]] = {}
    for row in (await session.run(_COLUMNS, max_rows=_MOST_COLUMNS)).records:
        columns.setdefault(row["oid"], []).append(quoted(row["name"]))
    return {
        "keywords": _KEYWORDS.split(),
        "functions": _functions(),
        "schemas": sorted({quoted(row["schema"]) for row in relations}),
        "relations": [
            {
                "schema": quoted(row["schema"]),
                "name": quoted(row["name"]),
                "kind": row["kind"],
                "visible": row["is_visible"],
                "columns": columns.get(row["oid"], []),
            }
            for row in relations
        ],
    }


def quoted(name: str) -> str:
    """A name as SQL has it: quoted where it must be."""
    if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def _functions() -> list[str]:
    import herdpy_sql.expr  # noqa: F401 - first: it and the library know each other
    from herdpy_sql.library import ROUTINES

    found = {name for name in ROUTINES if _PLAIN.fullmatch(name) and not name.startswith("pg_stat_get_")}
    return sorted(found | set(_AGGREGATES.split()))
