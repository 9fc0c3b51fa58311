"""Columns with the schema of their table, ``s.t.a``: which item of FROM each means.

Over a statement's tree, before views are expanded and anything is bound. Items are known by one name
afterwards, so a table that another one of its name would hide gets an alias of its own, "s.t", and every
column of it is qualified by that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Index
from herdpy_sql.errors import SqlError
from herdpy_sql.misspellings import missing_relation
from herdpy_sql.plan.names import temporary_schema
from herdpy_sql.plan.scope import name_of, quoted

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog

_LEVELS = (exp.Select, exp.Update, exp.Delete, exp.Insert, exp.Merge)


@dataclass(eq=False, slots=True)
class _Item:
    """What FROM, USING or a statement's target has under a name; ``schema`` is "" but for plain tables."""

    name: str
    node: exp.Expression
    schema: str = ""
    alias: str = ""


@dataclass(eq=False, slots=True)
class _Level:
    """A SELECT or a change, with what its columns can be of."""

    node: exp.Expression
    items: list[_Item] = field(default_factory=list)

    def named(self, name: str) -> list[_Item]:
        return [item for item in self.items if item.name == name]


def settle_qualified(tree: exp.Expression, catalog: Catalog) -> None:
    """Leave no schema before the table of a column, and no two tables of one name in a FROM.

    SqlError 42P01 for a column of a table that is not in FROM, 42P09 where two may be meant.
    """
    columns = [one for one in tree.find_all(exp.Column) if one.args.get("table") is not None]
    if not any(_schema_given(one) for one in columns) and not _may_repeat(tree):
        return
    _Names(tree, catalog).settle(columns)


def _schema_given(column: exp.Column) -> bool:
    return column.args.get("db") is not None and column.args.get("catalog") is None


def _may_repeat(tree: exp.Expression) -> bool:
    """Whether two tables of one name may be in it, one of them with a schema."""
    counts: Counter[str] = Counter()
    has_schema = False
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.args.get("alias") is None:
            counts[name_of(table.this)] += 1
            has_schema = has_schema or table.args.get("db") is not None
    return has_schema and any(count > 1 for count in counts.values())


class _Names:
    """The names of one statement."""

    def __init__(self, tree: exp.Expression, catalog: Catalog) -> None:
        self._catalog = catalog
        self._levels = {id(node): self._level(node) for node in tree.find_all(*_LEVELS)}

    def settle(self, columns: list[exp.Column]) -> None:
        for level in self._levels.values():
            self._part(level)
        meant = [(column, self._meant(column)) for column in columns]
        for column, item in meant:
            if item is not None and item.alias:
                column.set("table", quoted(item.alias))
            if _schema_given(column):
                column.set("db", None)
        for level in self._levels.values():
            _name_anew(level)

    def _part(self, level: _Level) -> None:
        """Give different tables of one name in a FROM names of their own; MERGE's have to differ."""
        if isinstance(level.node, exp.Merge):
            return
        for item in level.items:
            same = level.named(item.name)
            if len(same) > 1 and len({one.schema for one in same if one.schema}) == len(same):
                item.alias = f"{item.schema}.{item.name}"

    def _meant(self, column: exp.Column) -> _Item | None:
        """The item that a column is of; None where that is left to the binder."""
        name = name_of(column.args["table"])
        above = list(self._around(column))
        nearest: list[_Item] = next((found for level in above if (found := level.named(name))), [])
        if not _schema_given(column):
            if len(nearest) > 1 and all(one.alias for one in nearest):
                raise SqlError("42P09", f'table reference "{name}" is ambiguous')
            return nearest[0] if len(nearest) == 1 else None
        if not above:
            return None
        schema = name_of(column.args["db"])
        if schema == "pg_temp":
            schema = temporary_schema(self._catalog)
        for item in (one for level in above for one in level.named(name)):
            if item.schema == schema:
                if item not in nearest:
                    item.alias = f"{schema}.{name}"
                return item
        raise missing_relation(
            name, [(item.name, _table_name(item)) for level in above for item in level.items]
        )

    def _around(self, column: exp.Column) -> Iterator[_Level]:
        """The levels around a column, the nearest first; what an INSERT reads does not see its target."""
        below: exp.Expr = column
        node = column.parent
        while node is not None:
            level = self._levels.get(id(node))
            if level is not None and not (isinstance(node, exp.Insert) and below.arg_key == "expression"):
                yield level
            below, node = node, node.parent

    def _level(self, node: exp.Expression) -> _Level:
        level = _Level(node)
        for source in _sources(node):
            alias = source.args.get("alias")
            if alias is not None and alias.this is not None:
                level.items.append(_Item(name_of(alias.this), source))
            elif isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
                level.items.append(_Item(name_of(source.this), source, self._schema_of(source)))
        return level

    def _schema_of(self, table: exp.Table) -> str:
        """The schema of the table or view that a name means; "" for a WITH query."""
        name, given = name_of(table.this), table.args.get("db")
        if given is None and _is_common(table, name):
            return ""
        schema = None if given is None else name_of(given)
        found = self._catalog.find(schema, name)
        if found is None or isinstance(found, Index):  # one of the system's, perhaps
            return schema or "pg_catalog"
        return found.schema


def _table_name(item: _Item) -> str | None:
    node = item.node
    return (
        name_of(node.this) if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) else None
    )


def _is_common(table: exp.Table, name: str) -> bool:
    """Whether there is a WITH query of that name around it."""
    above: exp.Expr | None = table.parent
    while above is not None:
        with_ = above.args.get("with_")
        if with_ is not None and any(name_of(cte.args["alias"].this) == name for cte in with_.expressions):
            return True
        above = above.parent
    return False


def _sources(node: exp.Expression) -> Iterator[exp.Expression]:
    """The items of a level: the target of a change, and what FROM or USING has."""
    starts: list[object] = []
    if not isinstance(node, exp.Select):
        target = node.this
        starts.append(target.this if isinstance(target, exp.Schema) else target)
        using = node.args.get("using")
        starts += using if isinstance(using, list) else [using]
    source = node.args.get("from_")
    starts.append(source.this if source is not None else None)
    starts += [join.this for join in node.args.get("joins") or ()]
    for start in starts:
        yield from _joined(start)


def _joined(item: object) -> Iterator[exp.Expression]:
    """An item and what is joined to it within its own parentheses, unless they have an alias."""
    if not isinstance(item, exp.Expression):
        return
    if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table) and not item.args.get("alias"):
        yield from _joined(item.this)
    else:
        yield item
    for join in item.args.get("joins") or ():
        yield from _joined(join.this)


def _name_anew(level: _Level) -> None:
    """Give items the aliases that were found for them; FOR UPDATE OF names them, too."""
    anew = [item for item in level.items if item.alias]
    for item in anew:
        item.node.set("alias", exp.TableAlias(this=quoted(item.alias)))
    if not anew:
        return
    for lock in level.node.args.get("locks") or ():
        lock.set("expressions", [new for one in lock.expressions for new in _locked(one, anew)])


def _locked(named: exp.Expression, anew: list[_Item]) -> list[exp.Expression]:
    those = [item for item in anew if isinstance(named, exp.Table) and item.name == name_of(named.this)]
    made: list[exp.Expression] = [exp.Table(this=quoted(item.alias)) for item in those]
    return made or [named]
