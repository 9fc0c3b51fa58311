"""The locking clauses of a SELECT: which tables they are about, how they lock, and where they are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.locking import RowLock, WhenHeld
from herdpy_sql.lock_modes import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE
from herdpy_sql.plan.scope import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Table

_WORDS = {
    UPDATE: "FOR UPDATE",
    NO_KEY_UPDATE: "FOR NO KEY UPDATE",
    SHARE: "FOR SHARE",
    KEY_SHARE: "FOR KEY SHARE",
}
_ORDER: dict[WhenHeld, int] = {"wait": 0, "skip": 1, "refuse": 2}


class Clause(NamedTuple):
    """One locking clause: of which tables (none named: of all), and how."""

    lock: RowLock
    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """As it is written."""
        return _WORDS[self.lock.mode]


class Locked(NamedTuple):
    """A table in FROM that may be locked; ``nullable``: it is on that side of an outer join."""

    alias: str
    nullable: bool
    table: Table | None  # None: a subquery


def clauses_of(tree: exp.Expr) -> list[Clause]:
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
        found.append(Clause(RowLock(mode, when), names))
    return found


def locks_of(clauses: Sequence[Clause], items: Sequence[Locked]) -> dict[str, RowLock]:
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
