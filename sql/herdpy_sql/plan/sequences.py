"""Sequences: CREATE, ALTER and DROP SEQUENCE, and those of columns, SERIAL and GENERATED ... AS IDENTITY."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import DefinePlan, duplicate
from herdpy_sql.expr.syntax import is_regclass
from herdpy_sql.objects import CatalogObject, SequenceDefinition
from herdpy_sql.plan.drop import drop_objects
from herdpy_sql.plan.names import checked_name, object_of, refuse_temporary_move, target_schema
from herdpy_sql.plan.remarks import absent_relation, taken, with_remarks
from herdpy_sql.sequences import SequenceState, definition_of, find_sequence
from herdpy_sql.types import BIGINT, INTEGER, SMALLINT, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.execute.define import Work
    from herdpy_sql.parse.object_commands import ObjectCommand, Option
    from herdpy_sql.storage import View


_RANGES = {"smallint": 15, "integer": 31, "bigint": 63}
_TYPES = {"int2": "smallint", "int4": "integer", "int": "integer", "int8": "bigint"}


def build(given: Mapping[str, Option], before: SequenceDefinition | None = None) -> SequenceDefinition:
    """The definition that options ask for, over one that is there. SqlError 22023 as PostgreSQL has it."""
    kind = str(given.get("as") or (before.type if before else "bigint"))
    kind = _TYPES.get(kind, kind)
    if kind not in _RANGES:
        raise SqlError("22023", "sequence type must be smallint, integer, or bigint")
    high = (1 << _RANGES[kind]) - 1
    low = -high - 1
    increment = _number(given, "increment", before.increment if before else 1)
    if increment == 0:
        raise SqlError("22023", "INCREMENT must not be zero")
    default_low, default_high = (1, high) if increment > 0 else (low, -1)
    known_low, known_high = (None, None) if before is None else (before.minimum, before.maximum)
    if before is not None and kind != before.type:  # an end that was the old type's is the new type's
        old_high = (1 << _RANGES[before.type]) - 1
        if known_high == old_high:
            known_high = high
        if known_low == -old_high - 1:
            known_low = low
    maximum = _bound(given, "maxvalue", known_high, default_high)
    minimum = _bound(given, "minvalue", known_low, default_low)
    for name, value in (("MAXVALUE", maximum), ("MINVALUE", minimum)):
        if not low <= value <= high:
            raise SqlError("22023", f"{name} ({value}) is out of range for sequence data type {kind}")
    if minimum >= maximum:
        raise SqlError("22023", f"MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})")
    start = before.start if before is not None else minimum if increment > 0 else maximum
    start = _number(given, "start", start)
    check_within("START", start, minimum, maximum)
    cache = _number(given, "cache", before.cache if before else 1)
    if cache <= 0:
        raise SqlError("22023", f"CACHE ({cache}) must be greater than zero")
    return SequenceDefinition(
        start=start,
        increment=increment,
        minimum=minimum,
        maximum=maximum,
        cycle=bool(given.get("cycle", before.cycle if before else False)),
        cache=cache,
        type=kind,
        owner=before.owner if before else None,
        identity=before.identity if before else False,
    )


def _number(given: Mapping[str, Option], name: str, default: int) -> int:
    value = given.get(name)
    return value if isinstance(value, int) else default


def _bound(given: Mapping[str, Option], name: str, before: int | None, default: int) -> int:
    if name not in given:
        return default if before is None else before
    return _number(given, name, default)


def check_within(what: str, value: int, minimum: int, maximum: int) -> None:
    """22023 for a START or RESTART outside of the bounds."""
    if value < minimum:
        raise SqlError("22023", f"{what} value ({value}) cannot be less than MINVALUE ({minimum})")
    if value > maximum:
        raise SqlError("22023", f"{what} value ({value}) cannot be greater than MAXVALUE ({maximum})")


def plan(command: ObjectCommand, catalog: Catalog) -> Plan:
    """The plan of a statement about sequences."""
    if command.name == "CREATE SEQUENCE":
        return _create(command, catalog)
    if command.name == "ALTER SEQUENCE":
        return _alter(command, catalog)
    return drop_objects(command, catalog, "sequence")


def _create(command: ObjectCommand, catalog: Catalog) -> Plan:
    if "TEMPORARY" in command.options:
        raise SqlError("0A000", "temporary sequences are not supported")
    ((schema, name),) = command.names
    checked_name(name)
    schema = target_schema(catalog, schema, name)
    given = dict(command.settings)
    if "restart" in given:
        raise SqlError("42601", 'syntax error at or near "RESTART"')
    definition = changed(build(given), owner=_owner(catalog, schema, given.get("owned")))
    if catalog.is_taken(schema, name):
        if "IF NOT EXISTS" in command.options:
            return with_remarks(DefinePlan(command.name, name, None), [taken(name)])
        raise duplicate(name)
    return DefinePlan(command.name, name, lambda view: create(view, schema, name, definition))


def create(view: View, schema: str, name: str, definition: SequenceDefinition) -> None:
    """Make a sequence, with its first state."""
    if view.catalog.is_taken(schema, name):
        raise duplicate(name)
    one = CatalogObject(view.next_id, schema, name, definition)
    view.put_object(one)
    view.restart_sequence(one, SequenceState(definition.start, False))


def _owner(catalog: Catalog, schema: str, given: Option) -> tuple[int, int] | None:
    """The column that OWNED BY names."""
    if given is None or given == ("none",):
        return None
    parts: tuple[str, ...] = given  # type: ignore[assignment]
    if len(parts) < 2:
        raise SqlError(
            "42601", "invalid OWNED BY option", hint="Specify OWNED BY table.column or OWNED BY NONE."
        )
    *path, column = parts
    table = catalog.find(path[0] if len(path) > 1 else None, path[-1])
    if table is None:
        raise SqlError("42P01", f'relation "{".".join(path)}" does not exist')
    if not isinstance(table, Table):
        raise SqlError("42809", f'sequence cannot be owned by relation "{path[-1]}"')
    if table.schema != schema:
        raise SqlError("55000", "sequence must be in same schema as table it is linked to")
    position = table.positions.get(column)
    if position is None:
        raise SqlError("42703", f'column "{column}" of relation "{table.name}" does not exist')
    return table.id, position


def _alter(command: ObjectCommand, catalog: Catalog) -> Plan:
    ((schema, name),) = command.names
    one = object_of(catalog, "sequence", schema, name)
    if one is None:
        if "IF EXISTS" in command.options:
            return with_remarks(
                DefinePlan(command.name, name, None), [absent_relation(catalog, "relation", schema, name)]
            )
        raise SqlError("42P01", f'relation "{f"{schema}.{name}" if schema else name}" does not exist')
    if command.action == "OWNER":
        return DefinePlan(command.name, name, None)
    if command.action in {"RENAME", "SET SCHEMA"}:
        return _move(command, catalog, one)
    definition = definition_of(one)
    given = dict(command.settings)
    if not given:
        raise SqlError("42601", "syntax error at end of input")
    if "owned" in given:
        if definition.identity:
            raise SqlError("0A000", "cannot change ownership of identity sequence")
        definition = changed(definition, owner=_owner(catalog, one.schema, given["owned"]))
    return DefinePlan(command.name, name, altered(replace(one, definition=definition), given, one))


def altered(one: CatalogObject, given: Mapping[str, Option], before: CatalogObject | None = None) -> Work:
    """What gives a sequence other options, and perhaps another value. SqlError 22023 for options.

    ``before`` is it as the catalog has it, where ``one`` is not.
    """
    options = {name: value for name, value in given.items() if name != "restart"}
    after = build(options, definition_of(one))
    became = replace(one, definition=after)

    def work(view: View) -> None:
        if became != (before or one):
            view.put_object(became)
        if "restart" in given:
            restart = given["restart"]
            value = restart if isinstance(restart, int) else after.start
            check_within("RESTART", value, after.minimum, after.maximum)
            view.restart_sequence(became, SequenceState(value, False))
        else:
            check_within("RESTART", view.sequence_state(one).value, after.minimum, after.maximum)

    return work


def _move(command: ObjectCommand, catalog: Catalog, one: CatalogObject) -> Plan:
    (word,) = command.words
    if command.action == "RENAME":
        moved = replace(one, name=checked_name(word))
    else:
        if definition_of(one).owner is not None:
            raise SqlError("0A000", "cannot move an owned sequence into another schema")
        moved = replace(one, schema=target_schema(catalog, word, one.name))
        if moved == one:
            return DefinePlan(command.name, one.name, None)
        refuse_temporary_move(one.schema, moved.schema)
    if catalog.is_taken(moved.schema, moved.name):
        raise duplicate(moved.name)
    return DefinePlan(command.name, one.name, lambda view: view.put_object(moved))


SERIALS = {
    exp.DataType.Type.SERIAL: INTEGER,
    exp.DataType.Type.BIGSERIAL: BIGINT,
    exp.DataType.Type.SMALLSERIAL: SMALLINT,
}
_BASES = {Base.SMALLINT: "smallint", Base.INTEGER: "integer", Base.BIGINT: "bigint"}


def serial_sequence(sql: SqlType) -> SequenceDefinition:
    """The sequence of a SERIAL column of this type."""
    return build({"as": _BASES[sql.base]})


def identity_sequence(kind: exp.GeneratedAsIdentityColumnConstraint, sql: SqlType) -> SequenceDefinition:
    """The sequence of an identity column. SqlError 22023 for a type that cannot count."""
    given: dict[str, Option] = dict(kind.args.get("options") or ())
    return sequence_of(given, sql)


def sequence_of(given: Mapping[str, Option], sql: SqlType) -> SequenceDefinition:
    """The sequence of an identity column of this type. SqlError 22023 for a type that cannot count."""
    if sql.base not in _BASES:
        raise SqlError("22023", "identity column type must be smallint, integer, or bigint")
    return changed(build({"as": _BASES[sql.base], **given}), identity=True)


def settle_sequence_names(tree: exp.Expression, catalog: Catalog) -> None:
    """Have every nextval('name') in a definition name its sequence for ever: by its object id."""
    for call in tree.find_all(exp.Anonymous):
        if str(call.this).lower() == "nextval" and len(call.expressions) == 1:
            (arg,) = call.expressions
            inner = arg.this if is_regclass(arg) else arg
            if isinstance(inner, exp.Literal) and inner.is_string:
                oid = find_sequence(catalog, str(inner.this), catalog.path).oid
                call.set("expressions", [exp.Literal.string(str(oid))])
