"""Indexes on columns or expressions, of all or some rows: defined, altered, and recognised in conditions.

What an index's expression gives is stored with each row, in a hidden generated column, so the store
computes nothing. A condition or an order that says the same expression is about that column; an index of
only the rows of a condition is a way to rows where the statement has that condition, or a narrower one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sqlglot import expressions as exp

from herdpy_sql.catalog import Column, Index, KeyPart
from herdpy_sql.collations import check_stored
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.alter_table import (
    AlterNothing,
    AlterTablePlan,
    ReindexPlan,
    RenameIndexPlan,
    TableChange,
)
from herdpy_sql.execute.define import CreateIndexPlan, duplicate
from herdpy_sql.expr import Params, bind, coerce, rebuild, settle, split_conjuncts
from herdpy_sql.expr.nodes import Between, ColumnRef, Comparison, Const, In, IsNull, Like
from herdpy_sql.expr.scope import Scope
from herdpy_sql.partition_map import parts_of_index, read_tables
from herdpy_sql.plan.create_table import check_storage_parameter, check_storage_parameters, only, ordered
from herdpy_sql.plan.names import FreshNames, absent_relation, checked_name, taken, with_remarks
from herdpy_sql.plan.own import own
from herdpy_sql.plan.rules import is_immutable, rules_of, scalar
from herdpy_sql.plan.scope import find_table, name_of, own_tables, table_of
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.expr.scope import TableRelation
    from herdpy_sql.parse import Command
    from herdpy_sql.types import SqlType


def expression_column(change: TableChange, node: exp.Expression) -> int:
    """The hidden column that has an indexed expression, made if there is none; where it stands."""
    found = settle(_bound(change.table, node, "index expression"), Params())
    return _column(change, node, found)


def predicate_column(change: TableChange, node: exp.Expression) -> int:
    """The hidden column that is true of the rows of a partial index, made if there is none."""
    found = _bound(change.table, node, "index predicate")
    if found.type != BOOLEAN:
        try:
            found = coerce(found, BOOLEAN, "implicit", Params())
        except SqlError:
            raise SqlError(
                "42804", f"argument of WHERE must be type boolean, not type {found.type}"
            ) from None
    return _column(change, node, found)


def _bound(table: Table, node: exp.Expression, what: str) -> Expr:
    if node.find(exp.Rand, exp.Uuid):
        raise _not_immutable(what)
    scope, params = Scope(clause=what, volatile=True), Params()
    scope.add_table(table.name, table)
    found = own(bind(node, scope, params), what)
    if len(params.types):
        raise SqlError("42P02", "there is no parameter $1")
    if not is_immutable(found):
        raise _not_immutable(what)
    return found


def _not_immutable(what: str) -> SqlError:
    kind = what.removeprefix("index ")
    return SqlError("42P17", f"functions in index {kind} must be marked IMMUTABLE")


def _column(change: TableChange, node: exp.Expression, found: Expr) -> int:
    text = node.sql("postgres", normalize_functions="lower")
    for position, column in enumerate(change.table.columns):
        if column.hidden and not column.dropped and column.generated == text:
            return position
    name = f"__expr_{len(change.table.columns)}"
    change.rewritten = True
    return change.add_column(Column(name, found.type, hidden=True, generated=text))


def expression_type(table: Table, position: int) -> SqlType:
    """The type that the expression of a hidden column has. SqlError when it has none any more."""
    text = table.columns[position].generated
    assert text is not None
    return settle(_bound(table, scalar(text), "index expression"), Params()).type


def indexed_expression(table: Table, node: exp.Expression) -> int | None:
    """The hidden column that has this expression; None when no index is on it."""
    try:
        wanted = settle(_bound(table, node, "index expression"), Params())
    except SqlError:
        return None
    scope = Scope()
    item = scope.add_table(table.name, table)
    return next((at for at in _hidden_parts(table) if _over(item, at) == wanted), None)


# What the planner asks.


def substituted(conditions: Iterable[Expr], items: Sequence[TableRelation]) -> list[Expr]:
    """The expressions over the hidden columns of indexes, where they say what those have."""
    known = {expr: ref for item in items for expr, ref in _indexed(item)}
    if not known:
        return list(conditions)
    return [rebuild(one, lambda part: known.get(part)) for one in conditions]


def has_expressions(items: Sequence[TableRelation]) -> bool:
    """Whether a table among them has an index on an expression."""
    return any(_hidden_parts(item.table) for item in items)


def _hidden_parts(table: Table) -> tuple[int, ...]:
    """The positions of the expressions that indexes have; kept with the table."""
    found = table.derived.get("indexed expressions")
    if found is None:
        parts = {part.position for index in table.indexes for part in index.parts}
        found = tuple(at for at in sorted(parts) if table.columns[at].hidden and table.columns[at].generated)
        table.derived["indexed expressions"] = found
    return found  # type: ignore[return-value]


def _indexed(item: TableRelation) -> list[tuple[Expr, ColumnRef]]:
    """The expressions that indexes of a table have, over the wide row, and the columns for them."""
    return [(_over(item, position), item.column(position)) for position in _hidden_parts(item.table)]


def _over(item: TableRelation, position: int) -> Expr:
    """The expression of a hidden column over the wide row of a statement."""
    table = item.table
    found = table.derived.get(f"expression {position}")
    if found is None:
        text = table.columns[position].generated
        assert text is not None
        scope = Scope()
        scope.add_table(table.name, table)
        found = settle(bind(scalar(text), scope, Params()), Params())
        table.derived[f"expression {position}"] = found
    return rebuild(
        found,  # type: ignore[arg-type]
        lambda part: item.column(part.index) if isinstance(part, ColumnRef) else None,
    )


def implies(item: TableRelation, index: Index, conditions: Sequence[Expr]) -> bool:
    """Whether the rows that satisfy ``conditions`` are all in a partial index; true of any other index."""
    return all(any(_says(one, want) for one in conditions) for want in _predicate(item, index))


def implied(item: TableRelation, index: Index, conditions: Sequence[Expr]) -> frozenset[int]:
    """The numbers of the conditions that hold for every row of a partial index."""
    said = _predicate(item, index)
    if not said:
        return frozenset()
    return frozenset(n for n, one in enumerate(conditions) if any(_says(want, one) for want in said))


def _predicate(item: TableRelation, index: Index) -> list[Expr]:
    """What is true of every row of a partial index; nothing of any other index."""
    if index.predicate is None:
        return []
    return substituted(split_conjuncts(_over(item, index.predicate)), [item])


def _says(given: Expr, wanted: Expr) -> bool:
    """Whether ``given`` being true means that ``wanted`` is; False where that is not plain."""
    if given == wanted:
        return True
    if isinstance(wanted, IsNull) and wanted.negated:
        return wanted.arg in _not_null_in(given)
    if isinstance(given, Comparison) and isinstance(wanted, Comparison) and given.left == wanted.left:
        low, high = given.right, wanted.right
        if isinstance(low, Const) and isinstance(high, Const) and low.type == high.type:
            return _ranges(given.op, low.value, wanted.op, high.value)
    return False


def _not_null_in(given: Expr) -> list[Expr]:
    """What cannot be NULL where the condition is true."""
    if isinstance(given, Comparison):
        return [given.left, given.right]
    return [given.arg] if isinstance(given, In | Between | Like) else []


def _ranges(op: str, value: object, wanted_op: str, bound: object) -> bool:
    """Whether ``x op value`` means ``x wanted_op bound``, both known and of one type."""
    if value is None or bound is None or isinstance(value, float):
        return False
    try:
        below, above, same = value < bound, value > bound, value == bound  # type: ignore[operator]
    except TypeError:
        return False
    match wanted_op:
        case "<":
            return (op in {"=", "<", "<="} and below) or (op == "<" and same)
        case "<=":
            return op in {"=", "<", "<="} and (below or same)
        case ">":
            return (op in {"=", ">", ">="} and above) or (op == ">" and same)
        case ">=":
            return op in {"=", ">", ">="} and (above or same)
        case "<>":
            return (
                (op == "=" and not same)
                or (op == "<" and (below or same))
                or (op == "<=" and below)
                or (op == ">" and (above or same))
                or (op == ">=" and above)
            )
    return False


_OPERATOR_CLASSES = frozenset({"text_pattern_ops", "varchar_pattern_ops", "bpchar_pattern_ops", "text_ops"})
"""Text is ordered by code point, as these have it."""


class Followed(Protocol):
    """What plans an index on a partitioned table and each of its partitions."""

    def __call__(self, change: TableChange, catalog: Catalog, *, concurrently: bool) -> Plan:
        """The plan of a change that makes it on the partitioned table."""


def create_index(tree: exp.Create, catalog: Catalog, followed: Followed) -> Plan:
    """The plan of CREATE INDEX; ``followed`` has that of one on a partitioned table.

    SqlError 42703, 42P07, 42P17, 0A000 and others.
    """
    only(tree, {"this", "kind", "exists", "unique", "concurrently"}, "CREATE INDEX")
    node = tree.this
    if not isinstance(node, exp.Index):
        raise SqlError("42601", "syntax error in CREATE INDEX")
    table = table_of(catalog, node.args.get("table"))
    given = node.args.get("params")
    if given is None or not given.args.get("columns"):
        raise SqlError("42601", "syntax error: CREATE INDEX needs a list of columns")
    using = given.args.get("using")
    if using is not None and name_of(using) != "btree":
        raise SqlError("0A000", f'access method "{name_of(using)}" is not supported')
    only(given, {"columns", "using", "include", "where", "with_storage"}, "CREATE INDEX")
    change = TableChange(catalog, table, table)
    parts, names = _parts(change, given.args["columns"])
    _check_included(change, given)
    where = given.args.get("where")
    predicate = None if where is None else predicate_column(change, where.this)
    concurrently = bool(tree.args.get("concurrently"))
    if node.this is not None:
        name = checked_name(name_of(node.this))
        if catalog.is_taken(table.schema, name):
            if tree.args.get("exists"):
                return with_remarks(CreateIndexPlan(table, None, concurrently=concurrently), [taken(name)])
            raise duplicate(name)
    else:
        name = FreshNames(table.name, catalog, table.schema).new(names, "idx")
    unique = bool(tree.args.get("unique"))
    index = Index(0, name, table.id, tuple(parts), unique, predicate=predicate)
    if table.partition_key is not None:
        change.fresh.append(index)
        return followed(change, catalog, concurrently=concurrently)
    if change.table is not table and table.bound is not None:
        raise SqlError("0A000", "indexes on expressions or some rows of a partition alone are not supported")
    if change.table is table:
        return CreateIndexPlan(table, index, concurrently=concurrently)
    change.fresh.append(index)
    return AlterTablePlan(change, rules_of, tag="CREATE INDEX", concurrently=concurrently)


def _parts(change: TableChange, items: list[exp.Expression]) -> tuple[list[KeyPart], list[str]]:
    """The parts, and what each adds to the index's name when it is given none."""
    parts: list[KeyPart] = []
    names: list[str] = []
    for item in items:
        part = item if isinstance(item, exp.Ordered) else exp.Ordered(this=item)
        node = _without_class(part.this)
        collation = node.expression if isinstance(node, exp.Collate) else None
        node = node.this if isinstance(node, exp.Collate) else node
        if isinstance(node, exp.Column) and not node.args.get("table"):
            position = change.table.positions.get(name_of(node.this))
            if position is None or change.table.columns[position].hidden:
                raise SqlError(
                    "42703", f'column "{name_of(node.this)}" does not exist', column=name_of(node.this)
                )
            name = name_of(node.this)
        else:
            node = node.this if isinstance(node, exp.Paren) else node
            position = expression_column(change, node)
            name = _name_of_expression(node)
        ordered(name, change.table.columns[position].type)
        if collation is not None:
            check_stored(collation, change.table.columns[position].type)
        number = sum(one.rstrip("0123456789") == name for one in names)
        names.append(f"{name}{number}" if number else name)
        parts.append(KeyPart(position, bool(part.args.get("desc")), bool(part.args.get("nulls_first"))))
    return parts, names


def _without_class(node: exp.Expression) -> exp.Expression:
    """The node without an operator class that orders as ours does. SqlError 42704 for another one."""
    if not isinstance(node, exp.Opclass):
        return node
    name = node.expression.name.lower()
    if name not in _OPERATOR_CLASSES:
        raise SqlError("42704", f'operator class "{name}" does not exist for access method "btree"')
    inner: exp.Expression = node.this
    return inner


def _name_of_expression(node: exp.Expression) -> str:
    """What PostgreSQL calls a column of that expression in an index's name."""
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column):
        return name_of(node.this.this)
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Func) and not isinstance(node, exp.Cast | exp.Case | exp.Connector):
        return node.sql_name().lower()
    return "case" if isinstance(node, exp.Case) else "expr"


def _check_included(change: TableChange, given: exp.Expression) -> None:
    """INCLUDE asks for nothing that rows do not give already; but its columns must be there."""
    for one in given.args.get("include") or ():
        name = name_of(one)
        position = change.table.positions.get(name)
        if position is None or change.table.columns[position].hidden:
            raise SqlError("42703", f'column "{name}" does not exist', column=name)
    for one in given.args.get("with_storage") or ():
        check_storage_parameter(one.this.name.lower(), one.args["value"].name)


def alter_index(command: Command, catalog: Catalog) -> Plan:
    """The plan of ALTER INDEX. SqlError 42P01, 42P07."""
    (named,) = command.names
    try:
        table, index = _find_index(catalog, *named)
    except SqlError as error:
        if error.sqlstate == "42P01" and "IF EXISTS" in command.options:
            return with_remarks(AlterNothing("ALTER INDEX"), [absent_relation(catalog, "relation", *named)])
        raise
    if not command.argument:
        for action in command.actions:
            check_storage_parameters(action.text)
        return AlterNothing("ALTER INDEX")
    name = checked_name(command.argument)
    if catalog.is_taken(table.schema, name):
        raise duplicate(name)
    if index is None:
        return RenameIndexPlan(table, replace(table, key_name=name), name)
    indexes = tuple(replace(one, name=name) if one is index else one for one in table.indexes)
    return RenameIndexPlan(table, replace(table, indexes=indexes), name)


def _find_index(catalog: Catalog, schema: str | None, name: str) -> tuple[Table, Index | None]:
    """An index and its table; None for the index that is the table's key."""
    index = catalog.find(schema, name)
    if isinstance(index, Index):
        return catalog.tables[index.table_id], index
    owner = catalog.table_of_key(schema, name)
    if owner is not None:
        return owner, None
    raise SqlError("42P01", f'relation "{name}" does not exist')


def reindex(command: Command, catalog: Catalog) -> Plan:
    """The plan of REINDEX. SqlError 42P01."""
    if command.argument == "INDEX":
        (named,) = command.names
        table, index = _find_index(catalog, *named)
        if index is None:
            return ReindexPlan(())
        return ReindexPlan(parts_of_index(catalog, table, index) or ((table, index),))
    if command.argument == "TABLE":
        (named,) = command.names
        tables = [find_table(catalog, *named)]
    else:
        wanted = command.names[0][1] if command.argument == "SCHEMA" else None
        tables = [one for one in own_tables(catalog) if wanted is None or one.schema == wanted]
    kept = [table for table in read_tables(catalog, tables) if table.partition_key is None]
    found = {index.id: (table, index) for table in kept for index in table.indexes}
    return ReindexPlan(tuple(found.values()))


def cluster(command: Command, catalog: Catalog) -> Plan:
    """The plan of CLUSTER, which changes nothing: rows lie in the order of the primary key.

    SqlError 42P01 or 42704 for a table or an index that does not exist, 42809 for another table's index,
    0A000 for an index that is not the key, 42704 where there is no key and no index is named.
    """
    if not command.names:
        return AlterNothing("CLUSTER")
    table = find_table(catalog, *command.names[0])
    if len(command.names) == 1:
        if table.has_hidden_key:
            raise SqlError("42704", f'there is no previously clustered index for table "{table.name}"')
        return AlterNothing("CLUSTER")
    name = command.names[1][1]
    found = catalog.find(table.schema, name)
    owner = catalog.table_of_key(table.schema, name)
    if isinstance(found, Index) and found.table_id == table.id:
        raise SqlError(
            "0A000", "rows lie in the order of the primary key: CLUSTER by another index is not supported"
        )
    if owner is None and not isinstance(found, Index):
        raise SqlError("42704", f'index "{name}" for table "{table.name}" does not exist')
    if owner is None or owner.id != table.id:
        raise SqlError("42809", f'"{name}" is not an index for table "{table.name}"')
    return AlterNothing("CLUSTER")
