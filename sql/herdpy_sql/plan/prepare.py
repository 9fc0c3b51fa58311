"""One statement and a catalog to a plan: which kind it is, and which engine runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.expr import NotOwn, Params
from herdpy_sql.objects import CatalogObject
from herdpy_sql.parse import Command, CopyStatement, parse
from herdpy_sql.parse.describe import described
from herdpy_sql.parse.object_commands import ObjectCommand
from herdpy_sql.parse.right_commands import RightCommand
from herdpy_sql.parse.type_commands import TypeCommand
from herdpy_sql.plan import alter, change, define, enum_types, insert, merge, objects, type_names
from herdpy_sql.plan.columnar import columnar_select
from herdpy_sql.plan.commands import Explain, command_plan
from herdpy_sql.plan.copying import copy_plan
from herdpy_sql.plan.create_as import create_table_as, select_into
from herdpy_sql.plan.create_index import create_index
from herdpy_sql.plan.drop import drop
from herdpy_sql.plan.insert import ReturningApart
from herdpy_sql.plan.kept import kept_plan
from herdpy_sql.plan.locking import lock_table_plan, locking_query, locks_within, with_locks_first
from herdpy_sql.plan.positions import place
from herdpy_sql.plan.references import with_references
from herdpy_sql.plan.requests import SCHEMA, request_plan
from herdpy_sql.plan.select import bind_select
from herdpy_sql.plan.sequence_select import (
    VALUE_WORDS,
    sequence_select,
    settle_calls,
    takes_from_sequences,
)
from herdpy_sql.plan.view_targets import through_view
from herdpy_sql.plan.views import definition_of, expand, has_views
from herdpy_sql.plan.writable import CHANGES, bind_returning_apart, bind_staged, changes_data
from herdpy_sql.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.columnar.given import Given
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse import Statement
    from herdpy_sql.types import SqlType

Engine = Literal["auto", "own", "columnar"]
_SYSTEM_WORDS = re.compile(
    r"pg_|information_schema|\bherdpy\b|current_|session_user|\buser\b|version|hashtext|inet_|quote_"
    r"|to_reg|set_config|_description|has_\w+_privilege|acl|format_type|\breg[a-z]+\b|\boid\b|\bname\b"
    r"|\"char\"|operator\s*\(|format\s*\(",
    re.IGNORECASE,
)
"""What a query over the catalog cannot be without; others need not be looked through for it."""
_LOCK_WORDS = re.compile(r"\bfor\s+(?:no\s+key\s+)?(?:key\s+)?(?:update|share)\b", re.IGNORECASE)
"""What a statement with a locking clause cannot be without."""
_QUALIFIED = re.compile(r"""[\w"]\s*\.\s*[\w"]+\s*\.\s*[\w"]""")
"""What a column with its table and schema looks like."""
MAX_OUTPUTS = 1664
"""Columns that a SELECT may answer, as PostgreSQL has it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What of a session bears on planning.

    Attributes:
        engine: "auto", or one engine by force (0A000 where it cannot).
        scan_only: no access path but the full scan, for tests that compare.
        system: the text may be about the catalog or the server.
        locks: the text may have locking clauses.
        given: what WITH queries that change data give to the statement, by their names.
    """

    engine: Engine = "auto"
    scan_only: bool = False
    param_types: tuple[SqlType, ...] = ()
    system: bool = False
    given: Mapping[str, Given] = field(default_factory=dict)
    locks: bool = False

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
    statement = described(statement)
    try:
        settings = Settings(engine, scan_only, preset, _SYSTEM_WORDS.search(statement.clean) is not None)
        if _LOCK_WORDS.search(statement.clean) is not None:
            settings = replace(settings, locks=True)
        return _prepare(statement, catalog, settings)
    except RecursionError as error:
        raise SqlError("54001", "stack depth limit exceeded") from error
    except NotOwn as refusal:
        raise SqlError("0A000", f"{refusal.reason} is not supported") from None
    except SqlError as error:
        place(error, statement)
        raise


def _prepare(statement: Statement, catalog: Catalog, settings: Settings) -> Plan:
    tree = parse(statement)
    if isinstance(tree, Command):
        if tree.name == "EXPLAIN":
            assert tree.inner is not None
            inner = _prepare(tree.inner, catalog, settings)
            return Explain(inner, "ANALYZE" in tree.options, "JSON" in tree.options)
        if isinstance(tree, TypeCommand):
            return enum_types.plan(tree, catalog)
        if type_names.has_enums(catalog):
            type_names.mark_types_within(tree, catalog)
        if isinstance(tree, ObjectCommand):
            return objects.plan(tree, catalog, lambda query: query_plan(query, catalog, settings))
        if tree.name == "LOCK":
            return lock_table_plan(tree, catalog)
        if tree.name in alter.COMMANDS and not isinstance(tree, RightCommand):
            return alter.plan(tree, catalog)
        if tree.names and tree.name != "SET CONSTRAINTS" and not isinstance(tree, RightCommand):
            return drop(tree, catalog)
        query = None
        if tree.name == "DECLARE":
            assert tree.inner is not None
            query = _prepare(tree.inner, catalog, settings)
        return kept_plan(tree, query) or command_plan(tree)
    if isinstance(tree, exp.Expression):
        tree, settings = rewritten(tree, statement, catalog, settings)
    if isinstance(tree, CopyStatement):
        return copy_plan(tree, catalog, lambda query: _prepare(query, catalog, settings))
    if isinstance(tree, exp.Create):
        if str(tree.args.get("kind")).upper() == "INDEX":
            return create_index(tree, catalog)
        if tree.args.get("expression") is not None:
            return create_table_as(tree, catalog, lambda query: query_plan(query, catalog, settings))
        return define.create_table(tree, catalog)
    if settings.locks and locks_within(tree):
        tree = with_locks_first(tree)
        return bind_staged(tree, catalog, settings, lambda one, known: _one(one, catalog, known))
    if changes_data(tree):
        return bind_staged(tree, catalog, settings, lambda one, known: _one(one, catalog, known))
    if isinstance(tree, CHANGES):
        plan = _one(tree, catalog, settings)
        return plan if isinstance(plan, StagedPlan) else with_references(plan, catalog)
    if isinstance(tree, exp.Select) and tree.args.get("into") is not None:
        return select_into(tree, catalog, lambda query: query_plan(query, catalog, settings))
    if isinstance(tree, exp.Query | exp.Values):
        if SCHEMA in statement.clean.lower() and (asked := request_plan(tree)) is not None:
            return asked
        return query_plan(tree, catalog, settings)
    raise SqlError("0A000", f"{type(tree).__name__.upper()} is not supported")


def rewritten(
    tree: exp.Expression, statement: Statement, catalog: Catalog, settings: Settings
) -> tuple[exp.Expression, Settings]:
    """The statement with views expanded, and functions of sequences with plain names."""
    for column in tree.find_all(exp.Column) if _QUALIFIED.search(statement.clean) else ():
        if column.args.get("db") is not None and column.args.get("catalog") is None:
            column.set("db", None)  # the table's name alone is what FROM knows it by
    if has_views(catalog):
        tree = expand(through_view(tree, catalog), catalog)
        texts = [definition_of(one).query for one in catalog.objects.values() if one.kind == "view"]
        if not settings.system and any(_SYSTEM_WORDS.search(text) for text in texts):
            settings = replace(settings, system=_SYSTEM_WORDS.search(tree.sql("postgres")) is not None)
    if type_names.has_enums(catalog):
        type_names.mark_types(tree, catalog)
    if VALUE_WORDS.search(statement.clean):
        settle_calls(tree, catalog)
        settings = replace(settings, system=_SYSTEM_WORDS.search(tree.sql("postgres")) is not None)
    return tree, settings


def _one(tree: exp.Expression, catalog: Catalog, settings: Settings) -> Plan:
    """The plan of one statement that changes rows or asks for them; foreign keys are left to the caller
    unless it is in stages."""
    try:
        return _changes_or_query(tree, catalog, settings)
    except ReturningApart:
        return bind_returning_apart(tree, catalog, settings, lambda one, known: _one(one, catalog, known))


def _changes_or_query(tree: exp.Expression, catalog: Catalog, settings: Settings) -> Plan:
    if isinstance(tree, exp.Insert):
        return insert.bind_insert(tree, catalog, settings)
    if isinstance(tree, exp.Update):
        return change.bind_update(tree, catalog, settings)
    if isinstance(tree, exp.Delete):
        return change.bind_delete(tree, catalog, settings)
    if isinstance(tree, exp.Merge):
        return merge.bind_merge(tree, catalog, settings)
    return query_plan(tree, catalog, settings)


def _reads_sequence(tree: exp.Expression, catalog: Catalog) -> bool:
    """Whether a sequence stands in FROM: its one row says how far it has come."""
    found = (catalog.find(node.db or None, node.name) for node in tree.find_all(exp.Table))
    return any(isinstance(one, CatalogObject) and one.kind == "sequence" for one in found)


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
    if settings.system or _reads_sequence(tree, catalog):
        from herdpy_sql.system import concerns, system_select  # loads DuckDB, as ``columnar`` does

        if concerns(tree, catalog):
            if tree.find(exp.Lock):
                raise SqlError("0A000", "FOR UPDATE is not supported in queries over the catalog")
            return system_select(tree, catalog, settings.param_types)
    reason = "asked for" if not settings.given else "rows of WITH or RETURNING"
    if settings.engine != "columnar" and not settings.given:
        try:
            return bind_select(tree, catalog, settings.params(), settings, targets)
        except NotOwn as refusal:
            if settings.engine == "own":
                raise SqlError("0A000", f"own plans do not support {refusal.reason}") from None
            reason = refusal.reason
    if takes_from_sequences(tree):
        return sequence_select(tree, lambda inner: query_plan(inner, catalog, settings, targets), reason)
    if settings.locks and tree.find(exp.Lock):
        return locking_query(tree, catalog, settings, reason, targets)
    return columnar_select(tree, catalog, settings.param_types, reason, targets, settings.given)
