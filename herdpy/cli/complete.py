"""What the prompt offers after Tab: keywords, tables, columns and backslash commands.

The place decides: tables after FROM and its like, columns after ``table.`` or ``alias.``, and
otherwise the columns of the tables that the statement names, all tables, and keywords.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from herdpy.cli import meta
from herdpy.cli.schema import TableInfo, folded

_KEYWORD_TEXT = """
    ALL ALTER AND ANALYZE AS ASC BEGIN BETWEEN BIGINT BOOLEAN BY BYTEA CASE CAST CHAR CHECK CHECKPOINT
    COALESCE COMMIT CONFLICT CONSTRAINT COUNT CREATE CROSS CURRENT_DATE CURRENT_TIMESTAMP DATE DEFAULT DELETE
    DESC DISTINCT DO DOUBLE DROP ELSE END EXCEPT EXISTS EXPLAIN FALSE FETCH FIRST FOR FROM FULL GROUP HAVING
    IF ILIKE IN INDEX INNER INSERT INTEGER INTERSECT INTERVAL INTO IS JOIN JSON KEY LAST LATERAL LEFT LIKE
    LIMIT MAX MIN NATURAL NOT NOTHING NULL NULLIF NULLS NUMERIC OFFSET ON OR ORDER OUTER OVER PARTITION
    PRECISION PRIMARY REAL RECURSIVE REFERENCES RETURNING RIGHT ROLLBACK ROW ROWS SAVEPOINT SELECT SET SHOW
    SMALLINT SUM TABLE TEXT THEN TIME TIMESTAMP TIMESTAMPTZ TO TRUE TRUNCATE UNION UNIQUE UPDATE USING UUID
    VALUES VARCHAR VIEW WHEN WHERE WINDOW WITH AVG
"""
KEYWORDS = tuple(_KEYWORD_TEXT.split())

_WORD = re.compile(r"[\w$]*$")
_QUALIFIED = re.compile(r'("(?:[^"]|"")+"|\w+)\.\w*$')
_TABLE_NEXT = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|TRUNCATE|ON\s+(?=\w*$))\s+(?:[\w\".]+\s*,\s*)*\w*$", re.IGNORECASE
)
_NAMED = re.compile(
    r'\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+("(?:[^"]|"")+"|\w+)(?:\s+(?:AS\s+)?(\w+))?', re.IGNORECASE
)


class SqlCompleter(Completer):
    """Completes SQL against the tables that ``tables()`` gives."""

    def __init__(self, tables: Callable[[], Iterable[TableInfo]]) -> None:
        self._tables = tables

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Offer what fits at the cursor; the whole text is looked at for the tables it names."""
        before = document.text_before_cursor
        stripped = before.lstrip()
        if stripped.startswith("\\"):
            yield from self._after_backslash(stripped)
            return
        found = _WORD.search(before)
        word = found.group() if found else ""
        for text, kind in self._candidates(before, document.text, word):
            yield Completion(text, -len(word), display_meta=kind)

    def _after_backslash(self, text: str) -> Iterable[Completion]:
        name, blank, rest = text.partition(" ")
        if not blank:
            for command, about in meta.COMMANDS.items():
                if command.startswith(name):
                    yield Completion(command, -len(name), display_meta=about.help)
        elif name == "\\d":
            for table in self._tables():
                if table.name.startswith(rest):
                    yield Completion(table.name, -len(rest), display_meta="table")

    def _candidates(self, before: str, text: str, word: str) -> Iterable[tuple[str, str]]:
        tables = {table.name: table for table in self._tables()}
        named = _named_tables(text, tables)
        prefix = word.lower()
        qualified = _QUALIFIED.search(before)
        if qualified:
            table = named.get(folded(qualified[1])) or tables.get(folded(qualified[1]))
            for column in table.columns if table else ():
                if column.name.lower().startswith(prefix):
                    yield _shown(column.name), column.type
            return
        if _TABLE_NEXT.search(before):
            for name in tables:
                if name.lower().startswith(prefix):
                    yield _shown(name), "table"
            return
        if not word:
            return
        seen = set()
        for table in named.values():
            for column in table.columns:
                if column.name.lower().startswith(prefix) and column.name not in seen:
                    seen.add(column.name)
                    yield _shown(column.name), f"{table.name}, {column.type}"
        for name in tables:
            if name.lower().startswith(prefix):
                yield _shown(name), "table"
        lower = word.islower()
        for keyword in KEYWORDS:
            if keyword.lower().startswith(prefix):
                yield keyword.lower() if lower else keyword, "keyword"


def _named_tables(text: str, tables: dict[str, TableInfo]) -> dict[str, TableInfo]:
    """The tables a statement names, by name and by alias."""
    named = {}
    for found in _NAMED.finditer(text):
        table = tables.get(folded(found[1]))
        if table is not None:
            named[table.name] = table
            if found[2] and found[2].upper() not in KEYWORDS:
                named[found[2].lower()] = table
    return named


def _shown(name: str) -> str:
    """A name as it must be written: in quotes unless it is plain lower case."""
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
