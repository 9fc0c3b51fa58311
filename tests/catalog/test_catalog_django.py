"""The two queries of Django 5.2's ``get_constraints`` (django.db.backends.postgresql.introspection)."""

from __future__ import annotations

from tests.catalog.alike import Both

CONSTRAINTS = """
SELECT
    c.conname,
    array(
        SELECT attname
        FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx)
        JOIN pg_attribute AS ca ON cols.colid = ca.attnum
        WHERE ca.attrelid = c.conrelid
        ORDER BY cols.arridx
    ),
    c.contype,
    (SELECT fkc.relname || '.' || fka.attname
    FROM pg_attribute AS fka
    JOIN pg_class AS fkc ON fka.attrelid = fkc.oid
    WHERE fka.attrelid = c.confrelid AND fka.attnum = c.confkey[1]),
    cl.reloptions
FROM pg_constraint AS c
JOIN pg_class AS cl ON c.conrelid = cl.oid
WHERE cl.relname = '{table}' AND pg_catalog.pg_table_is_visible(cl.oid)
"""

INDEXES = """
SELECT
    indexname,
    array_agg(attname ORDER BY arridx),
    indisunique,
    indisprimary,
    array_agg(ordering ORDER BY arridx),
    amname,
    exprdef,
    s2.attoptions
FROM (
    SELECT
        c2.relname as indexname, idx.*, attr.attname, am.amname,
        CASE
            WHEN idx.indexprs IS NOT NULL THEN
                pg_get_indexdef(idx.indexrelid)
        END AS exprdef,
        CASE am.amname
            WHEN 'btree' THEN
                CASE (option & 1)
                    WHEN 1 THEN 'DESC' ELSE 'ASC'
                END
        END as ordering,
        c2.reloptions as attoptions
    FROM (
        SELECT *
        FROM
            pg_index i,
            unnest(i.indkey, i.indoption)
                WITH ORDINALITY koi(key, option, arridx)
    ) idx
    LEFT JOIN pg_class c ON idx.indrelid = c.oid
    LEFT JOIN pg_class c2 ON idx.indexrelid = c2.oid
    LEFT JOIN pg_am am ON c2.relam = am.oid
    LEFT JOIN
        pg_attribute attr ON attr.attrelid = c.oid AND attr.attnum = idx.key
    WHERE c.relname = '{table}' AND pg_catalog.pg_table_is_visible(c.oid)
) s2
GROUP BY indexname, indisunique, indisprimary, amname, exprdef, attoptions
"""

TABLES = (
    "CREATE TABLE parent (id int PRIMARY KEY, a int, b int, UNIQUE (b, a))",
    "CREATE TABLE child (id int, x int CONSTRAINT positive CHECK (x > 0), y int, z text UNIQUE, "
    "PRIMARY KEY (id, x), FOREIGN KEY (y, x) REFERENCES parent (b, a))",
    "CREATE INDEX child_by_two ON child (y DESC, z)",
    "CREATE UNIQUE INDEX child_by_sum ON child ((x + y), id)",
)


def test_constraints_and_indexes_are_those_of_postgresql(both: Both) -> None:
    both.define(*TABLES)
    for table, constraints, indexes in (("parent", 2, 2), ("child", 4, 4)):
        for query, count in ((CONSTRAINTS, constraints), (INDEXES, indexes)):
            text = query.format(table=table)
            ours, theirs = sorted(both.herdpy(text)), sorted(both.postgres(text))
            assert ours == theirs
            assert len(ours) == count + 1
