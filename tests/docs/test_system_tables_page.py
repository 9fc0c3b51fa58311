"""docs/system-tables.md lists every table of schema herdpy with its columns and their types, as they are."""

from __future__ import annotations

import re
from pathlib import Path

from herdpy_sql.system_relations import HERDPY, relations

PAGE = (Path(__file__).parents[2] / "docs" / "system-tables.md").read_text()
TYPES = {
    "text": "text", "int4": "integer", "int8": "bigint", "oid": "oid", "bool": "boolean",
    "float8": "double precision", "timestamptz": "timestamptz",
}  # fmt: skip
ROW = re.compile(r"^\| `(\w+)` \| ([a-z ]+) \|", re.MULTILINE)


def told(page: str) -> dict[str, list[tuple[str, str]]]:
    """Columns and types under each heading that names a table."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    return {name: ROW.findall(text) for name, text in sections.items() if " " not in name}


def test_the_page_has_every_table_with_its_columns():
    known = {
        name: [(column, TYPES[type_]) for column, type_ in relation.columns]
        for (schema, name), relation in relations().items()
        if schema == HERDPY
    }
    assert told(PAGE) == known


def test_what_is_missing_is_seen():
    assert told("## t\n| `a` | text | x |\n## How it is\n| `b` | text | |\n") == {"t": [("a", "text")]}
