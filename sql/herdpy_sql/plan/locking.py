"""FOR UPDATE and its relatives, and LOCK TABLE: which tables are locked how, and where that is refused.

Own plans lock their rows themselves (``execute.locking``). Of a query for the columnar engine all columns of
the locked tables are asked for besides, so that the rows can be found, locked and compared. A SELECT that
locks within a statement is made a WITH query, which is carried out before what reads it (``writable``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.locking import LockedTable, LockingQuery, LockTablePlan, RowLock, WhenHeld
from herdpy_sql.expr import compile_expr
from herdpy_sql.lock_modes import KEY_SHARE, NO_KEY_UPDATE, SHARE, TABLE_MODES, UPDATE
from herdpy_sql.plan.clauses import limits_of
from herdpy_sql.plan.columnar import columnar_select
from herdpy_sql.plan.own import Refusal
from herdpy_sql.plan.scope import find_table, in_schema, name_of, quoted, row_columns, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse import Command
    from herdpy_sql.plan.settings import PlanSettings
    from herdpy_sql.types import SqlType


_WORDS = {
    UPDATE: "FOR UPDATE",
    NO_KEY_UPDATE: "FOR NO KEY UPDATE",
    SHARE: "FOR SHARE",
    KEY_SHARE: "FOR KEY SHARE",
}
_ORDER: dict[WhenHeld, int] = {"wait": 0, "skip": 1, "refuse": 2}


class LockClause(NamedTuple):
    """One locking clause: of which tables (none named: of all), and how."""

    lock: RowLock
    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """As it is written."""
        return _WORDS[self.lock.mode]


class LockableItem(NamedTuple):
    """A table in FROM that may be locked; ``nullable``: it is on that side of an outer join."""

    alias: str
    nullable: bool
    table: Table | None  # None: a subquery


def clauses_of(tree: exp.Expr) -> list[LockClause]:
    """The locking clauses of a SELECT."""
    found = []
    for lock in tree.args.get("locks") or ():
        key = bool(lock.args.get("key"))
        mode = (
            (NO_KEY_UPDATE if key else UPDATE) if lock.args.get("update") else (KEY_SHARE if key else SHARE)
        )
        wait = lock.args.get("wait")
        when: WhenHeld = "wait" if wait is None else "refuse" if wait else "skip"
        names = tuple(name_of(one.this) for one in lock.args.get("expressions") or ())
        found.append(LockClause(RowLock(mode, when), names))
    return found


def locks_of(clauses: Sequence[LockClause], items: Sequence[LockableItem]) -> dict[str, RowLock]:
    """How each table is locked, by its alias: as strongly as any clause says.

    Raises:
        SqlError: 42P01, a clause names what is not in FROM; 0A000, it is nullable, or a subquery.
    """
    found: dict[str, RowLock] = {}
    for clause in clauses:
        for name in clause.names:
            if all(item.alias != name for item in items):
                raise SqlError(
                    "42P01", f'relation "{name}" in {clause.words} clause not found in FROM clause'
                )
        for item in items:
            if clause.names and item.alias not in clause.names:
                continue
            if item.nullable:
                raise SqlError(
                    "0A000", f"{clause.words} cannot be applied to the nullable side of an outer join"
                )
            if item.table is None:
                raise SqlError("0A000", f"{clause.words} is not supported with a subquery in FROM")
            before = found.get(item.alias, clause.lock)
            when = max(before.when_held, clause.lock.when_held, key=_ORDER.__getitem__)
            found[item.alias] = RowLock(max(before.mode, clause.lock.mode), when)
    return found


def refuse_locks(tree: exp.Expr) -> None:
    """SqlError 0A000 where the rows of an answer are no rows of tables."""
    if isinstance(tree, exp.SetOperation):
        found = next((one for side in tree.walk() if (one := clauses_of(side))), None)
        if found is not None:
            raise SqlError("0A000", f"{found[0].words} is not allowed with UNION/INTERSECT/EXCEPT")
        return
    clauses = clauses_of(tree)
    if not clauses:
        return
    words = clauses[0].words
    for name, what in (
        ("distinct", "DISTINCT clause"),
        ("group", "GROUP BY clause"),
        ("having", "HAVING clause"),
    ):
        if tree.args.get(name):
            raise SqlError("0A000", f"{words} is not allowed with {what}")
    for one in tree.expressions:
        if any(node.parent_select is tree for node in one.find_all(exp.Window)):
            raise SqlError("0A000", f"{words} is not allowed with window functions")
        if any(node.parent_select is tree for node in one.find_all(exp.AggFunc)):
            raise SqlError("0A000", f"{words} is not allowed with aggregate functions")


_HOISTED = "locked rows"


def locking_query(
    tree: exp.Expression,
    catalog: Catalog,
    settings: PlanSettings,
    reason: str,
    targets: Sequence[SqlType] | None,
) -> Plan:
    """The plan of a columnar SELECT with locking clauses. SqlError as ``locks_of``, ``refuse_locks``."""
    refuse_locks(tree)
    if not isinstance(tree, exp.Select):
        raise SqlError("0A000", f"FOR UPDATE is not supported with {reason}")
    items = _items(tree, catalog, settings)
    locks = locks_of(clauses_of(tree), items)
    asked = tree.copy()
    asked.set("locks", None)
    params = settings.params()
    limit = offset = None
    if any(lock.when_held == "skip" for lock in locks.values()):
        limits = limits_of(tree, params)
        if isinstance(limits, Refusal):
            raise SqlError("0A000", f"SKIP LOCKED is not supported with {limits.reason}")
        limit, offset = limits
        asked.set("limit", None)
        asked.set("offset", None)
    locked, wanted = _with_columns(asked, items, locks)
    types = [*(targets or ()), *(None for _ in wanted)] if targets else None
    settings = settings.knowing(params.types, tree.args.get("limit"), tree.args.get("offset"))
    query = columnar_select(asked, catalog, settings, reason, types)
    width = len(query.columns or ()) - len(wanted)
    return LockingQuery(
        query,
        width,
        tuple(LockedTable(table, positions, width + at, lock) for table, positions, at, lock in locked),
        None if limit is None else compile_expr(limit),
        None if offset is None else compile_expr(offset),
    )


def _with_columns(
    asked: exp.Select, items: Sequence[LockableItem], locks: dict[str, RowLock]
) -> tuple[list[tuple[Table, tuple[int, ...], int, RowLock]], list[exp.Expression]]:
    """Ask for all columns of the locked tables: where each table's begin, and all of them."""
    wanted: list[exp.Expression] = []
    locked = []
    for item in items:
        if item.alias in locks and item.table is not None:
            positions = tuple(i for i, column in enumerate(item.table.columns) if not column.dropped)
            locked.append((item.table, positions, len(wanted), locks[item.alias]))
            wanted += row_columns(item.table, item.alias)
    asked.set("expressions", [*asked.expressions, *wanted])
    return locked, wanted


def _items(tree: exp.Select, catalog: Catalog, settings: PlanSettings) -> list[LockableItem]:
    """What of FROM may be locked; WITH queries and functions are not."""
    with_ = tree.args.get("with_")
    known = {name_of(cte.args["alias"].this) for cte in with_.expressions} if with_ is not None else set()
    known |= set(settings.given)
    source = tree.args.get("from_")
    found: list[LockableItem] = []
    if source is not None:
        _item(source.this, catalog, known, found, nullable=False)
    for join in tree.args.get("joins") or ():
        side = str(join.args.get("side") or "").upper()
        if side in {"RIGHT", "FULL"}:
            found = [one._replace(nullable=True) for one in found]
        _item(join.this, catalog, known, found, nullable=side in {"LEFT", "FULL"})
    return found


def _item(
    node: exp.Expression, catalog: Catalog, known: set[str], found: list[LockableItem], *, nullable: bool
) -> None:
    alias = node.args.get("alias")
    named = name_of(alias.this) if alias is not None and alias.this is not None else None
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        if not node.args.get("db") and name_of(node.this) in known:
            return
        table = table_of(catalog, node)
        found.append(LockableItem(named or table.name, nullable, table))
        node.replace(in_schema(node, table)) if node.parent is not None and not node.args.get("db") else None
    elif isinstance(node, exp.Subquery):
        found.append(LockableItem(named or "", nullable, None))


def locks_within(tree: exp.Expression) -> bool:
    """Whether a SELECT within a statement locks rows."""
    return any(lock.parent is not tree for lock in tree.find_all(exp.Lock))


def with_locks_first(tree: exp.Expression) -> exp.Expression:
    """The statement with each SELECT in it that locks rows as a WITH query of its own.

    One within another WITH query stays there: that one is carried out by itself.
    """
    made = tree.copy()
    with_ = made.args.get("with_")
    ctes = list(with_.expressions) if with_ is not None else []
    for lock in list(made.find_all(exp.Lock)):
        select = lock.parent
        if select is None or select is made or any(_is_within(select, cte) for cte in ctes):
            continue
        name = quoted(f"{_HOISTED} {len(ctes)}")
        inner = select.copy()
        reading = exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Table(this=name)))
        if select.parent is not None and isinstance(select.parent, exp.Subquery | exp.In | exp.Exists):
            select.replace(reading)
            ctes.append(exp.CTE(this=inner, alias=exp.TableAlias(this=name.copy())))
        else:
            refuse_locks(select.parent if isinstance(select.parent, exp.SetOperation) else select)
            raise SqlError("0A000", "FOR UPDATE is not supported in this place of a statement")
    made.set("with_", exp.With(expressions=ctes, recursive=bool(with_ and with_.args.get("recursive"))))
    return made


def _is_within(node: exp.Expr, outer: exp.Expr) -> bool:
    up: exp.Expr | None = node
    while up is not None and up is not outer:
        up = up.parent
    return up is outer


def lock_table_plan(command: Command, catalog: Catalog) -> Plan:
    """The plan of LOCK TABLE. SqlError 42P01."""
    tables = tuple(find_table(catalog, schema, name) for schema, name in command.names)
    return LockTablePlan(tables, TABLE_MODES[command.argument], wait="NOWAIT" not in command.options)
