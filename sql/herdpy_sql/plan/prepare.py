"""One statement and a catalog to a plan: which kind it is, and which engine runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import NotOwn, Params
from herdpy_sql.parse import Command, CopyStatement, parse
from herdpy_sql.plan import alter, change, define, insert
from herdpy_sql.plan.columnar import columnar_select
from herdpy_sql.plan.commands import Explain, command_plan
from herdpy_sql.plan.copying import copy_plan
from herdpy_sql.plan.drop import drop
from herdpy_sql.plan.kept import kept_plan
from herdpy_sql.plan.requests import SCHEMA, request_plan
from herdpy_sql.plan.select import bind_select
from herdpy_sql.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse import Statement
    from herdpy_sql.types import SqlType

Engine = Literal["auto", "own", "columnar"]
_SYSTEM_WORDS = re.compile(
    r"pg_|information_schema|\bherdpy\b|current_|session_user|\buser\b|version|inet_|quote_|to_reg|set_config|_description"
    r"|has_\w+_privilege|acl|format_type|\breg[a-z]+\b|\boid\b|\bname\b|\"char\"|operator\s*\(|format\s*\(",
    re.IGNORECASE,
)
"""What a query over the catalog cannot be without; others need not be looked through for it."""
MAX_OUTPUTS = 1664
"""Columns that a SELECT may answer, as PostgreSQL has it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What of a session bears on planning.

    Attributes:
        engine: "auto", or one engine by force (0A000 where it cannot).
        scan_only: no access path but the full scan, for tests that compare.
        system: the text may be about the catalog or the server.
    """

    engine: Engine = "auto"
    scan_only: bool = False
    param_types: tuple[SqlType, ...] = ()
    system: bool = False

    def params(self) -> Params:
        """A fresh collector of parameters' types."""
        return Params(self.param_types)


def prepare(
    statement: Statement,
    catalog: Catalog,
    *,
    engine: Engine = "auto",
    param_types: Sequence[SqlType | None] = (),
    scan_only: bool = False,
) -> Plan:
    """The plan of a statement. ``param_types`` presets the types of $1 ... (None: to be inferred).

    SqlError for what is wrong (42601, 42P01, 42703, 42804 ...) or not supported (0A000).
    """
    preset = tuple(one or UNKNOWN for one in param_types)
    try:
        settings = Settings(engine, scan_only, preset, _SYSTEM_WORDS.search(statement.clean) is not None)
        return _prepare(statement, catalog, settings)
    except RecursionError as error:
        raise SqlError("54001", "stack depth limit exceeded") from error
    except NotOwn as refusal:
        raise SqlError("0A000", f"{refusal.reason} is not supported") from None


def _prepare(statement: Statement, catalog: Catalog, settings: Settings) -> Plan:
    tree = parse(statement)
    if isinstance(tree, Command):
        if tree.name == "EXPLAIN":
            assert tree.inner is not None
            inner = _prepare(tree.inner, catalog, settings)
            return Explain(inner, "ANALYZE" in tree.options, "JSON" in tree.options)
        if tree.name in alter.COMMANDS:
            return alter.plan(tree, catalog)
        if tree.names:
            return drop(tree, catalog)
        query = None
        if tree.name == "DECLARE":
            assert tree.inner is not None
            query = _prepare(tree.inner, catalog, settings)
        return kept_plan(tree, query) or command_plan(tree)
    if isinstance(tree, CopyStatement):
        return copy_plan(tree, catalog, lambda query: _prepare(query, catalog, settings))
    if isinstance(tree, exp.Create):
        if str(tree.args.get("kind")).upper() == "INDEX":
            return define.create_index(tree, catalog)
        return define.create_table(tree, catalog)
    if isinstance(tree, exp.Insert):
        return insert.bind_insert(tree, catalog, settings)
    if isinstance(tree, exp.Update):
        return change.bind_update(tree, catalog, settings)
    if isinstance(tree, exp.Delete):
        return change.bind_delete(tree, catalog, settings)
    if isinstance(tree, exp.Query | exp.Values):
        if SCHEMA in statement.clean.lower() and (asked := request_plan(tree)) is not None:
            return asked
        return query_plan(tree, catalog, settings)
    raise SqlError("0A000", f"{type(tree).__name__.upper()} is not supported")


def query_plan(
    tree: exp.Expression,
    catalog: Catalog,
    settings: Settings,
    targets: Sequence[SqlType] | None = None,
) -> Plan:
    """The plan of a query by the engine that should, or must, run it.

    ``targets`` are the types that its bare literals and parameters take (INSERT ... SELECT).
    """
    if isinstance(tree, exp.Select) and len(tree.expressions) > MAX_OUTPUTS:
        raise SqlError("54011", f"target lists can have at most {MAX_OUTPUTS} entries")
    if settings.system:
        from herdpy_sql.system import concerns, system_select  # loads DuckDB, as ``columnar`` does

        if concerns(tree, catalog):
            if tree.find(exp.Lock):
                raise SqlError("0A000", "FOR UPDATE is not supported in queries over the catalog")
            return system_select(tree, catalog, settings.param_types)
    reason = "asked for"
    if settings.engine != "columnar":
        try:
            return bind_select(tree, catalog, settings.params(), settings, targets)
        except NotOwn as refusal:
            if settings.engine == "own":
                raise SqlError("0A000", f"own plans do not support {refusal.reason}") from None
            reason = refusal.reason
    if tree.find(exp.Lock):
        raise SqlError("0A000", f"FOR UPDATE is not supported with {reason}")
    return columnar_select(tree, catalog, settings.param_types, reason, targets)
