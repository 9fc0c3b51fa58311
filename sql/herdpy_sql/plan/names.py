"""Names of what is defined: checked, and made up as PostgreSQL makes them (t_a_b_key, t_a_b_key1 ...).

Identifiers of CREATE come in; names of at most 63 bytes that nothing else has go out.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import duplicate
from herdpy_sql.plan.scope import PUBLIC, name_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from herdpy_sql.catalog import Catalog

MAX_NAME = 63


def new_name(node: exp.Expression) -> str:
    """The name of what is created, in the only schema there is."""
    if not isinstance(node, exp.Table):
        raise SqlError("42601", "syntax error: a table name was expected")
    database = node.args.get("db")
    if database is not None and name_of(database) != PUBLIC:
        raise SqlError("3F000", f'schema "{name_of(database)}" does not exist')
    return checked_name(name_of(node.this))


def checked_name(name: str) -> str:
    """PostgreSQL truncates names to 63 bytes; a silent change of a name is refused here."""
    if not name:
        raise SqlError("42601", "zero-length delimited identifier")
    if len(name.encode()) > MAX_NAME:
        raise SqlError("42622", f'identifier "{name}" is longer than {MAX_NAME} bytes')
    return name


def refuse_repeated(names: Sequence[str]) -> None:
    """SqlError 42P07 for a name given twice."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise duplicate(name)


class FreshNames:
    """Fresh names of constraints and indexes: t_a_b_key, t_a_b_key1 ..."""

    def __init__(self, table: str, catalog: Catalog) -> None:
        self.table = table
        self.taken = {table, *catalog.by_name, *catalog.index_by_name}
        self.taken |= {table.key_name for table in catalog.tables.values()}

    def new(self, columns: Sequence[str], suffix: str) -> str:
        """A name for these columns, taken from now on."""
        found = fresh_name(self.table, columns, suffix, self.taken)
        self.taken.add(found)
        return found


def fresh_name(table: str, columns: Sequence[str], suffix: str, taken: Container[str]) -> str:
    """A name of at most 63 bytes, of which the table's and the columns' give way: makeObjectName's rule."""
    first, second = table.encode(), "_".join(columns).encode()[:MAX_NAME]
    for number in itertools.count():
        label = f"_{suffix}{number or ''}"
        room = MAX_NAME - len(label) - bool(second)
        one, two = len(first), len(second)
        while one + two > room:
            if one > two:
                one -= 1
            else:
                two -= 1
        parts = [part.decode(errors="ignore") for part in (first[:one], second[:two]) if part]
        name = "_".join(parts) + label
        if name not in taken:
            break
    return name
