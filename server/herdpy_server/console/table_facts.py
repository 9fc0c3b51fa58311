"""What the tables' page says of schemas and relations: catalog queries, and the DDL that they amount to.

Below the page; every name goes to the catalog as a parameter, and into DDL quoted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from herdpy_server.console.names import quoted
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.console.gateway import PageSession

Row = dict[str, Any]

KINDS = {
    "r": "table",
    "p": "table",
    "v": "view",
    "m": "materialized view",
    "S": "sequence",
    "f": "foreign table",
}
_MOST_RELATIONS = 5000
_RELATIONS = """
SELECT c.oid::int8 AS oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
       pg_get_userbyid(c.relowner) AS owner, obj_description(c.oid, 'pg_class') AS comment,
       CASE WHEN c.relkind IN ('r', 'p', 'm') THEN pg_total_relation_size(c.oid) END AS bytes,
       s.n_live_tup AS rows
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
  AND (n.nspname NOT IN ('pg_catalog', 'information_schema', 'herdpy', 'pg_toast')) = $1
ORDER BY n.nspname, c.relkind = 'S', c.relkind = 'v', c.relname
"""
_RELATION = """
SELECT c.oid::int8 AS oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
       pg_get_userbyid(c.relowner) AS owner, obj_description(c.oid, 'pg_class') AS comment,
       CASE WHEN c.relkind IN ('r', 'p', 'm') THEN pg_relation_size(c.oid) END AS table_bytes,
       CASE WHEN c.relkind IN ('r', 'p', 'm') THEN pg_total_relation_size(c.oid) END AS bytes,
       CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END AS definition
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
"""
_COLUMNS = """
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS not_null,
       pg_get_expr(d.adbin, d.adrelid) AS default_value, a.attidentity::text AS identity,
       a.attgenerated::text AS generated, col_description(a.attrelid, a.attnum::int4) AS comment
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::int8::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_CONSTRAINTS = """
SELECT conname AS name, contype::text AS kind, pg_get_constraintdef(oid) AS definition
FROM pg_constraint WHERE conrelid = $1::int8::oid ORDER BY contype <> 'p', contype, conname
"""
_INDEXES = """
SELECT c.relname AS name, pg_get_indexdef(i.indexrelid) AS definition, i.indisunique AS is_unique,
       i.indisprimary AS is_primary, pg_relation_size(i.indexrelid) AS bytes,
       EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = i.indexrelid AND o.contype IN ('p', 'u', 'x'))
         AS is_constraint
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = $1::int8::oid ORDER BY i.indisprimary DESC, c.relname
"""
_RIGHTS = """
SELECT grantee, string_agg(privilege_type || CASE is_grantable WHEN 'YES' THEN '*' ELSE '' END, ', '
         ORDER BY privilege_type) AS privileges
FROM information_schema.table_privileges WHERE table_schema = $1 AND table_name = $2
GROUP BY grantee ORDER BY grantee
"""
_SEQUENCE = "SELECT * FROM pg_sequences WHERE schemaname = $1 AND sequencename = $2"
_IDENTITY = {"a": "ALWAYS", "d": "BY DEFAULT"}


async def relations(session: PageSession, *, of_system: bool) -> list[Row]:
    """The relations that are the users' own, or those of the system."""
    return (await session.run(_RELATIONS, not of_system, max_rows=_MOST_RELATIONS)).records


async def relation(session: PageSession, schema: str, name: str) -> Row:
    """All of one relation: its row with "columns", "constraints", "indexes", "rights", "sequence", "ddl".

    Raises:
        SqlError: 42P01, there is none.
    """
    found = await session.records(_RELATION, schema, name)
    if not found:
        raise SqlError("42P01", f"relation {quoted(schema)}.{quoted(name)} does not exist")
    one = found[0]
    for part, statement in (("columns", _COLUMNS), ("constraints", _CONSTRAINTS), ("indexes", _INDEXES)):
        one[part] = await session.records(statement, one["oid"])
    one["rights"] = await session.records(_RIGHTS, schema, name)
    one["sequence"] = await session.records(_SEQUENCE, schema, name) if one["kind"] == "S" else []
    one["ddl"] = ddl_of(one)
    return one


def ddl_of(one: Row) -> str:
    """The statements that make such a relation, without its rows, rights and owner."""
    name = f"{quoted(one['schema'])}.{quoted(one['name'])}"
    kind = one["kind"]
    if kind == "S":
        statements = [_sequence(name, row) for row in one["sequence"]]
    elif kind in ("v", "m"):
        word = "VIEW" if kind == "v" else "MATERIALIZED VIEW"
        statements = [f"CREATE {word} {name} AS\n{(one['definition'] or '').rstrip().rstrip(';')};"]
    else:
        parts = [f"    {_column(column)}" for column in one["columns"]]
        parts += [
            f"    CONSTRAINT {quoted(row['name'])} {row['definition']}"
            for row in one["constraints"]
            if row["kind"] in "puxfc"
        ]
        body = ",\n".join(parts)
        statements = [f"CREATE TABLE {name} (\n{body}\n);" if body else f"CREATE TABLE {name} ();"]
        statements += [f"{row['definition']};" for row in one["indexes"] if not row["is_constraint"]]
    return "\n".join([*statements, *_comments(name, one)])


def _column(column: Row) -> str:
    parts = [quoted(column["name"]), column["type"]]
    if column["identity"]:
        parts.append(f"GENERATED {_IDENTITY[column['identity']]} AS IDENTITY")
    elif column["generated"]:
        parts.append(f"GENERATED ALWAYS AS ({_inner(column['default_value'])}) STORED")
    elif column["default_value"] is not None:
        parts.append(f"DEFAULT {column['default_value']}")
    if column["not_null"]:
        parts.append("NOT NULL")
    return " ".join(parts)


def _inner(expression: str) -> str:
    """An expression without the parentheses around all of it."""
    if not (expression.startswith("(") and expression.endswith(")")):
        return expression
    depth = 0
    for at, one in enumerate(expression):
        depth += (one == "(") - (one == ")")
        if depth == 0 and at < len(expression) - 1:
            return expression
    return expression[1:-1]


def _sequence(name: str, row: Row) -> str:
    cycle = "CYCLE" if row["cycle"] else "NO CYCLE"
    return (
        f"CREATE SEQUENCE {name} AS {row['data_type']} START WITH {row['start_value']}"
        f" INCREMENT BY {row['increment_by']} MINVALUE {row['min_value']} MAXVALUE {row['max_value']}"
        f" CACHE {row['cache_size']} {cycle};"
    )


def _comments(name: str, one: Row) -> Iterable[str]:
    word = KINDS[one["kind"]].upper()
    if one["comment"] is not None:
        yield f"COMMENT ON {word} {name} IS {literal(one['comment'])};"
    for column in one["columns"]:
        if column["comment"] is not None:
            yield f"COMMENT ON COLUMN {name}.{quoted(column['name'])} IS {literal(column['comment'])};"


def literal(text: str) -> str:
    """Text as a string literal."""
    mark = "E" if "\\" in text else ""
    return mark + "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
