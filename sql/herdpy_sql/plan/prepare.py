"""One statement and a catalog to a plan: which kind it is, and which engine runs it."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.expr.nodes import NotColumnar
from herdpy_sql.expr.typenames import ENUM, builtin
from herdpy_sql.library import ROUTINES
from herdpy_sql.objects import CatalogObject
from herdpy_sql.parse import Command, CopyStatement, parse
from herdpy_sql.parse.as_of import as_of
from herdpy_sql.parse.commands import described
from herdpy_sql.parse.object_commands import ObjectCommand, TypeCommand
from herdpy_sql.parse.program_commands import ProgramCommand
from herdpy_sql.parse.role_commands import RightCommand
from herdpy_sql.plan import (
    change,
    create_table,
    insert,
    objects,
    partitions,
    past,
    programs,
    sequences,
    type_names,
    views,
)
from herdpy_sql.plan.alter_table import plan_alter
from herdpy_sql.plan.columnar import PlannedQuery, bound_select
from herdpy_sql.plan.commands import Explain, command_plan, request_plan, vacuum_plan
from herdpy_sql.plan.copying import copy_plan
from herdpy_sql.plan.create_table import create_table_as, select_into
from herdpy_sql.plan.drop import drop
from herdpy_sql.plan.extensions import plan_extension
from herdpy_sql.plan.indexes import alter_index, cluster, create_index, reindex
from herdpy_sql.plan.locking import lock_table_plan, locking_query, locks_within, with_locks_first
from herdpy_sql.plan.own import Refusal
from herdpy_sql.plan.positions import place
from herdpy_sql.plan.program_calls import mark_calls, refuse_definition_lists, with_programs
from herdpy_sql.plan.qualified import settle_qualified
from herdpy_sql.plan.rules import with_references
from herdpy_sql.plan.scope import name_of
from herdpy_sql.plan.select import own_select
from herdpy_sql.plan.sequences import sequence_select, settle_calls, takes_from_sequences
from herdpy_sql.plan.settings import Engine, PlanSettings, SystemParts
from herdpy_sql.plan.views import expand, has_views, through_view
from herdpy_sql.plan.writable import CHANGES, bind_returning_apart, bind_staged, changes_data
from herdpy_sql.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.expr.coerce import ProgramNames
    from herdpy_sql.parse import Statement
    from herdpy_sql.types import SqlType

_NAMED_TYPES = frozenset({exp.DataType.Type.NAME, exp.DataType.Type.USERDEFINED})
_NAMED_THINGS = (
    exp.Dot, exp.Operator, exp.ObjectIdentifier, exp.CurrentUser, exp.SessionUser,
    exp.CurrentRole, exp.CurrentCatalog, exp.CurrentDatabase, exp.CurrentSchema, exp.CurrentSchemas,
    exp.CurrentVersion,
)  # fmt: skip
"""Nodes that name a function or an operator by its schema, or are functions of the session."""
_SESSION_WORDS = frozenset({"user", "current_role"})
"""Those that are read as columns."""
_DONE_TO_RELATIONS = {"RENAME TO": "RENAME", "RENAME COLUMN": "RENAME COLUMN", "SET SCHEMA": "SET SCHEMA"}
"""What ALTER TABLE does to views and sequences, too, and what ALTER VIEW and ALTER SEQUENCE call it."""


def _alter_table(command: Command, catalog: Catalog) -> Plan:
    """The plan of ALTER TABLE, which may name a view or a sequence for what is done to any relation."""
    (name,) = command.names
    found = catalog.find(*name)
    (action, *more) = command.actions
    of_partitions = partitions.alter(command, catalog)
    if of_partitions is not None:
        return of_partitions
    done = _DONE_TO_RELATIONS.get(action.kind)
    if not isinstance(found, CatalogObject) or done is None or more:
        return plan_alter(command, catalog)
    words = tuple(word for word in (action.name, action.text) if word)
    alike = ObjectCommand(f"ALTER {found.kind.upper()}", names=(name,), action=done, words=words)
    if found.kind == "view":
        plan = views.alter_view(alike, catalog)
    elif found.kind == "sequence" and done != "RENAME COLUMN":
        plan = sequences.alter_sequence(alike, catalog)
    else:
        return plan_alter(command, catalog)
    plan.tag = command.name
    return plan


_OF_TABLES: dict[str, Callable[[Command, Catalog], Plan]] = {
    "LOCK": lock_table_plan,
    "ALTER TABLE": _alter_table,
    "ALTER INDEX": alter_index,
    "REINDEX": reindex,
    "CLUSTER": cluster,
    "VACUUM": vacuum_plan,
    "ANALYZE": vacuum_plan,
}
"""Commands about tables and indexes there are, by their names."""
MAX_OUTPUTS = 1664
"""Columns that a SELECT may answer, as PostgreSQL has it."""


def prepare(
    statement: Statement,
    catalog: Catalog,
    *,
    engine: Engine = "auto",
    param_types: Sequence[SqlType | None] = (),
    scan_only: bool = False,
    names: ProgramNames | None = None,
) -> Plan:
    """The plan of a statement. ``param_types`` presets the types of $1 ... (None: to be inferred); ``names``
    are those of the program that it is part of.

    SqlError for what is wrong (42601, 42P01, 42703, 42804 ...) or not supported (0A000).
    """
    preset = tuple(one or UNKNOWN for one in param_types)
    statement = described(statement)
    try:
        settings = PlanSettings(
            engine, scan_only, preset, system_query=_system_query, system_parts=_system_parts, names=names
        )
        return _prepare(statement, catalog, settings)
    except RecursionError as error:
        raise SqlError("54001", "stack depth limit exceeded") from error
    except SqlError as error:
        place(error, statement)
        raise


def _prepare(statement: Statement, catalog: Catalog, settings: PlanSettings) -> Plan:
    tree = parse(statement)
    if isinstance(tree, Command):
        return _command(tree, catalog, settings)
    if isinstance(tree, CopyStatement):
        return copy_plan(tree, catalog, lambda query: _prepare(query, catalog, settings))
    if as_of(tree) is not None:
        return past.of_the_past(_reading_past(tree, catalog, settings))
    tree = rewritten(tree, catalog)
    calls = mark_calls(tree, catalog)
    refuse_definition_lists(tree)
    if isinstance(tree, exp.Create):
        if calls and tree.args.get("expression") is not None:
            raise SqlError("0A000", "CREATE TABLE AS with functions of the database is not supported")
        return _create(tree, catalog, settings)
    if calls:
        return _calling(tree, catalog, settings)
    return _changes_or_reads(tree, statement, catalog, settings)


def _calling(tree: exp.Expression, catalog: Catalog, settings: PlanSettings) -> Plan:
    """The plan of a statement that calls functions of the catalog."""
    into = tree.args.get("into")
    if into is not None or locks_within(tree) or changes_data(tree):
        raise SqlError("0A000", "functions of the database are not supported in this statement")

    def planned(one: exp.Expression, known: PlanSettings) -> Plan:
        found = _one(one, catalog, known)
        if isinstance(found, StagedPlan) or not isinstance(one, CHANGES):
            return found
        return with_references(found, catalog)

    return with_programs(tree, catalog, settings, planned)


def _changes_or_reads(
    tree: exp.Expression, statement: Statement, catalog: Catalog, settings: PlanSettings
) -> Plan:
    """The plan of a statement that is no definition and calls no function of the catalog."""
    if locks_within(tree):
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
        if (asked := request_plan(tree)) is not None:
            return asked
        return query_plan(tree, catalog, settings)
    at_end = statement.clean.upper() == statement.keyword
    raise (
        SqlError("42601", "syntax error at end of input")
        if at_end
        else SqlError("0A000", f"{statement.keyword} is not supported")
    )


def _reading_past(tree: exp.Expression, catalog: Catalog, settings: PlanSettings) -> Plan:
    """The plan of a statement with AS OF SYSTEM TIME."""
    past.check(tree)
    then = past.past_of(catalog)
    settings = replace(settings, system_query=_refuse_system)

    def of_then(
        query: exp.Expression,
        _now: Catalog | None = None,
        settings: PlanSettings = settings,
        targets: Sequence[SqlType] | None = None,
    ) -> Plan:
        """The plan of the query that a statement of the present takes rows of."""
        columnar = replace(settings, engine="columnar")
        return past.asking_first(query_plan(rewritten(query, then), then, columnar, targets))

    if isinstance(tree, exp.Create):
        return create_table_as(tree, catalog, of_then)
    if isinstance(tree, exp.Insert):
        insert.take_in_with(tree)
        query = tree.args["expression"]
        tree.set("expression", None)
        tree = rewritten(tree, catalog)
        assert isinstance(tree, exp.Insert)
        tree.set("expression", query)
        plan = insert.bind_insert(tree, catalog, settings, of_then)
        if isinstance(plan, Refusal):
            raise SqlError("0A000", "RETURNING does not go with AS OF SYSTEM TIME here")
        return plan if isinstance(plan, StagedPlan) else with_references(plan, catalog)
    if isinstance(tree, exp.Select) and tree.args.get("into") is not None:
        return select_into(tree, catalog, of_then)
    return query_plan(rewritten(tree, then), then, settings)


def _command(command: Command, catalog: Catalog, settings: PlanSettings) -> Plan:
    """The plan of a command; ``EXPLAIN`` and ``DECLARE`` have a statement within."""
    if command.name == "EXPLAIN":
        assert command.inner is not None
        options = command.options
        verbose = "VERBOSE" in options
        inner = _prepare(command.inner, catalog, replace(settings, verbose=verbose))
        typed_tree = inner.typed_tree() if verbose else ()
        return Explain(inner, "ANALYZE" in options, "JSON" in options, tuple(typed_tree))
    if isinstance(command, TypeCommand):
        return objects.plan_type(command, catalog)
    if type_names.has_enums(catalog):
        type_names.mark_types_within(command, catalog)
    if isinstance(command, ProgramCommand):
        return programs.plan(command, catalog, settings, _planned_within(catalog, settings))
    if isinstance(command, ObjectCommand):
        return _object_plan(command, catalog, settings)
    if isinstance(command, RightCommand):
        return command_plan(command)
    if command.name in _OF_TABLES:
        return _OF_TABLES[command.name](command, catalog)
    if command.names and command.name not in {"SET CONSTRAINTS", "UNDROP TABLE"}:
        return drop(command, catalog)
    if command.name == "DECLARE":
        assert command.inner is not None
        return command_plan(command, _prepare(command.inner, catalog, settings))
    return command_plan(command)


def _planned_within(catalog: Catalog, settings: PlanSettings) -> Callable[[Statement, ProgramNames], Plan]:
    """What plans the statements of a program that is defined."""
    return lambda statement, names: _prepare(
        statement, catalog, replace(settings, names=names, param_types=())
    )


def _create(tree: exp.Create, catalog: Catalog, settings: PlanSettings) -> Plan:
    """The plan of CREATE INDEX, CREATE TABLE and CREATE TABLE AS."""
    if str(tree.args.get("kind")).upper() == "INDEX":
        return create_index(tree, catalog, partitions.followed_index)
    if tree.args.get("expression") is not None:
        return create_table_as(tree, catalog, lambda query: query_plan(query, catalog, settings))
    if partitions.makes_partition(tree):
        return partitions.create_partition(tree, catalog)
    return create_table.create_table(tree, catalog)


def _object_plan(command: ObjectCommand, catalog: Catalog, settings: PlanSettings) -> Plan:
    """The plan of a statement about schemas, sequences, views or comments."""
    kind = command.name.split()[-1]
    if kind == "SEQUENCE":
        return sequences.plan(command, catalog)
    if kind == "EXTENSION":
        return plan_extension(command)
    if kind == "SCHEMA":
        return objects.plan_schema(command, catalog)
    if kind == "VIEW":
        return views.plan(command, catalog, lambda query: query_plan(query, catalog, settings))
    return objects.plan_comment(command, catalog)


def rewritten(tree: exp.Expression, catalog: Catalog) -> exp.Expression:
    """The statement with views expanded, and functions of sequences with plain names."""
    settle_qualified(tree, catalog)
    if has_views(catalog):
        tree = expand(through_view(tree, catalog), catalog)
    if type_names.has_enums(catalog):
        type_names.mark_types(tree, catalog)
    settle_calls(tree, catalog)
    return tree


def _one(tree: exp.Expression, catalog: Catalog, settings: PlanSettings) -> Plan:
    """The plan of one statement that changes rows or asks for them; foreign keys are left to the caller
    unless it is in stages."""
    found = _changes_or_query(tree, catalog, settings)
    if isinstance(found, Refusal):
        return bind_returning_apart(tree, catalog, settings, lambda one, known: _one(one, catalog, known))
    return found


def _changes_or_query(tree: exp.Expression, catalog: Catalog, settings: PlanSettings) -> Plan | Refusal:
    """The plan, or why RETURNING has to be computed by a query over the rows that the statement returns."""
    if isinstance(tree, exp.Insert):
        return insert.bind_insert(tree, catalog, settings, query_plan)
    if isinstance(tree, exp.Update):
        return change.bind_update(tree, catalog, settings)
    if isinstance(tree, exp.Delete):
        return change.bind_delete(tree, catalog, settings)
    if isinstance(tree, exp.Merge):
        return change.bind_merge(tree, catalog, settings)
    return query_plan(tree, catalog, settings)


def _may_concern_system(tree: exp.Expression, catalog: Catalog) -> bool:
    """Whether a name in it may be the system's; so most statements need not load what knows those names."""
    for node in tree.walk():
        judge = _judge_of(type(node))  # type: ignore[arg-type]  # mypy: nodes hash, so classes do not
        if judge is not None and judge(node, catalog):
            return True
    return False


@functools.cache
def _judge_of(kind: type) -> Callable[[Any, Catalog], bool] | None:
    """What says of nodes of this class whether they may name something of the system's; None: they do not."""
    return next((judge for one, judge in _JUDGES if issubclass(kind, one)), None)


def _may_be_system_table(node: exp.Table, catalog: Catalog) -> bool:
    if node.args.get("db") is not None or not isinstance(node.this, exp.Identifier):
        return True
    return not isinstance(catalog.find(None, name_of(node.this)), Table)


def _may_be_system_call(node: exp.Anonymous, catalog: Catalog) -> bool:
    return any(one.context for one in ROUTINES.get(str(node.this).lower(), ()))


def _may_be_system_type(node: exp.DataType, catalog: Catalog) -> bool:
    """Whether a type is named that is neither built in nor an ENUM."""
    return node.this in _NAMED_TYPES and node.args.get(ENUM) is None and builtin(node) is None


_JUDGES: tuple[tuple[type | tuple[type, ...], Callable[[Any, Catalog], bool]], ...] = (
    (_NAMED_THINGS, lambda node, catalog: True),
    (exp.Anonymous, _may_be_system_call),
    (exp.Table, _may_be_system_table),
    (exp.Column, lambda node, catalog: node.name.lower() in _SESSION_WORDS),
    (exp.DataType, _may_be_system_type),
)


def _system_query(
    tree: exp.Expression,
    catalog: Catalog,
    param_types: Sequence[SqlType],
    targets: Sequence[SqlType | None] | None,
) -> Plan | None:
    """See ``PlanSettings.system_query``."""
    if not _may_concern_system(tree, catalog):
        return None
    from herdpy_sql.system import concerns, system_select  # loads DuckDB, as ``columnar`` does

    return system_select(tree, catalog, param_types, targets) if concerns(tree, catalog) else None


def _refuse_system(
    tree: exp.Expression,
    catalog: Catalog,
    param_types: Sequence[SqlType],
    targets: Sequence[SqlType | None] | None,
) -> Plan | None:
    """``_system_query`` of a statement that reads the past. SqlError 0A000 for a query about the server."""
    del param_types, targets
    if _may_concern_system(tree, catalog):
        from herdpy_sql.system import concerns  # loads DuckDB

        if concerns(tree, catalog):
            raise SqlError(
                "0A000", "the system catalog and functions of the session are not read AS OF SYSTEM TIME"
            )
    return None


def _system_parts(
    tree: exp.Expression, catalog: Catalog, parts: Iterable[exp.Expression]
) -> SystemParts | None:
    """See ``PlanSettings.system_parts``."""
    found = [one for one in parts if _may_concern_system(one, catalog)]
    if not found:
        return None
    from herdpy_sql.system import SystemStatement, concerns  # loads DuckDB

    return SystemStatement(tree, catalog) if any(concerns(one, catalog) for one in found) else None


def query_plan(
    tree: exp.Expression,
    catalog: Catalog,
    settings: PlanSettings,
    targets: Sequence[SqlType] | None = None,
) -> Plan:
    """The plan of a query by the engine that should, or must, run it.

    ``targets`` are the types that its bare literals and parameters take (INSERT ... SELECT).
    """
    if isinstance(tree, exp.Select) and len(tree.expressions) > MAX_OUTPUTS:
        raise SqlError("54011", f"target lists can have at most {MAX_OUTPUTS} entries")
    of_system = settings.system_query(tree, catalog, settings.param_types, targets)
    if of_system is not None:
        if tree.find(exp.Lock):
            raise SqlError("0A000", "FOR UPDATE is not supported in queries over the catalog")
        if of_system.columns == ():
            raise NotColumnar("SELECT with an empty list is not supported in queries over the catalog")
        return of_system
    bound = PlannedQuery(tree, catalog, settings, targets)
    refusal = Refusal("asked for")
    if settings.engine != "columnar":
        found = own_select(tree, bound.query, catalog, bound.params, settings)
        if not isinstance(found, Refusal):
            return found
        if settings.engine == "own":
            raise SqlError("0A000", f"own plans do not support {found.reason}")
        refusal = found
    reason = refusal.reason
    if takes_from_sequences(tree):
        return sequence_select(tree, lambda inner: query_plan(inner, catalog, settings, targets), reason)
    if tree.find(exp.Lock):
        return locking_query(tree, catalog, settings, reason, targets)
    try:
        return bound_select(bound, reason)
    except NotColumnar:
        found = own_select(tree, bound.query, catalog, bound.params, replace(settings, engine="own"))
        if not refusal.is_choice or isinstance(found, Refusal):
            raise
        return found
