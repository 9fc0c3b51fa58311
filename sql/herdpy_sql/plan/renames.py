"""Names that change: the expressions that the catalog keeps as text are written anew with the new ones."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp
from sqlglot.dialects.postgres import Postgres

from herdpy_sql.plan.rules import scalar
from herdpy_sql.plan.scope import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy_sql.catalog import Table


def with_column_renamed(table: Table, position: int, name: str) -> Table:
    """The table with a column of another name, in its expressions too."""
    old = table.columns[position].name

    def rename(node: exp.Column) -> None:
        if name_of(node.this) == old:
            node.set("this", _identifier(name))

    columns = list(table.columns)
    columns[position] = replace(columns[position], name=name)
    return _rewritten(replace(table, columns=tuple(columns)), rename)


def with_table_renamed(table: Table, name: str) -> Table:
    """The table with another name, which may qualify columns in its expressions."""
    old = table.name

    def rename(node: exp.Column) -> None:
        qualifier = node.args.get("table")
        if qualifier is not None and name_of(qualifier) == old:
            node.set("table", _identifier(name))

    return _rewritten(replace(table, name=name), rename)


def _identifier(name: str) -> exp.Identifier:
    """The name in a text, quoted where it must be, or might have to be."""
    plain = _PLAIN.match(name) and name.upper() not in Postgres.Tokenizer.KEYWORDS
    return exp.to_identifier(name, quoted=not plain)


_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


def _rewritten(table: Table, rename: Callable[[exp.Column], None]) -> Table:
    checks = tuple(replace(check, condition=_expression(check.condition, rename)) for check in table.checks)
    columns = tuple(
        column
        if column.generated is None
        else replace(column, generated=_expression(column.generated, rename))
        for column in table.columns
    )
    return replace(table, checks=checks, columns=columns)


def _expression(text: str, rename: Callable[[exp.Column], None]) -> str:
    tree = scalar(text)
    for node in list(tree.find_all(exp.Column)):
        if isinstance(node.this, exp.Identifier):
            rename(node)
    return tree.sql("postgres")
