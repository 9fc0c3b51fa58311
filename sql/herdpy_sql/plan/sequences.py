"""Sequences: CREATE, ALTER, DROP; SERIAL and IDENTITY columns; their functions in columnar queries.

DuckDB knows nothing of sequences. Where such a call is an item of the SELECT list, its arguments take its
place in the query, and the call is made here for each row of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn, Plan, PlanOutcome
from herdpy_sql.execute.define import DefinePlan, duplicate
from herdpy_sql.execute.insert import datum_rows
from herdpy_sql.expr.calls import SEQUENCE_FUNCTIONS, sequence_result
from herdpy_sql.expr.nodes import TAKING
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.syntax import is_regclass
from herdpy_sql.objects import CatalogObject, SequenceDefinition
from herdpy_sql.plan.drop import drop_objects
from herdpy_sql.plan.names import (
    absent_relation,
    checked_name,
    object_of,
    place_of,
    refuse_temporary_move,
    taken,
    target_schema,
    with_remarks,
)
from herdpy_sql.sequences import SequenceState, definition_of, find_sequence, owned_by, split_name
from herdpy_sql.types import BIGINT, INTEGER, SMALLINT, Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Row
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
        return alter_sequence(command, catalog)
    return drop_objects(command, catalog, "sequence")


def _create(command: ObjectCommand, catalog: Catalog) -> Plan:
    ((schema, name),) = command.names
    checked_name(name)
    schema = place_of(catalog, schema, name, temporary="TEMPORARY" in command.options)
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


def alter_sequence(command: ObjectCommand, catalog: Catalog) -> Plan:
    """The plan of ALTER SEQUENCE. SqlError 42P01, 42P07, 22023 and others."""
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


def _is_call(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in SEQUENCE_FUNCTIONS


def takes_from_sequences(tree: exp.Expression) -> bool:
    """Whether a function of sequences is anywhere in it."""
    return any(_is_call(node) for node in tree.find_all(exp.Anonymous))


def settle_calls(tree: exp.Expression, catalog: Catalog) -> None:
    """Have the functions name their sequences by plain texts: no regclass, no pg_get_serial_sequence."""
    for call in tree.find_all(exp.Anonymous):
        if not _is_call(call) or not call.expressions or str(call.this).lower() == "pg_notify":
            continue
        name = call.expressions[0]
        if is_regclass(name):
            name = name.this
        if isinstance(name, exp.Anonymous) and str(name.this).lower() == "pg_get_serial_sequence":
            name = _serial(name, catalog)
        if name is not call.expressions[0]:
            call.set("expressions", [name, *call.expressions[1:]])


def _serial(node: exp.Anonymous, catalog: Catalog) -> exp.Expression:
    """The sequence of a column, named by literals; the very node for what only a query can say."""
    args = node.expressions
    if len(args) != 2 or not all(isinstance(arg, exp.Literal) and arg.is_string for arg in args):
        return node
    schema, name = split_name(str(args[0].this))
    table = catalog.find(schema, name)
    if not isinstance(table, Table):
        raise SqlError("42P01", f'relation "{args[0].this}" does not exist')
    position = table.positions.get(str(args[1].this))
    if position is None:
        raise SqlError("42703", f'column "{args[1].this}" of relation "{name}" does not exist')
    found = owned_by(catalog, table, position)
    return exp.Literal.string(str(found[0].oid)) if found else exp.Null()


@dataclass(frozen=True)
class _Item:
    """An item of the SELECT list: columns of the answer from ``first`` on, and what is called with them."""

    first: int
    count: int
    call: str | None


class SequenceSelect(Plan):
    """A query over whose rows functions of sequences are called."""

    tag = "SELECT"
    engine = "columnar"

    def __init__(self, query: Plan, items: tuple[_Item, ...], columns: tuple[OutputColumn, ...]) -> None:
        self.query = query
        self.items = items
        self.columns = columns
        self.source = query.source
        self.param_types = query.param_types
        self.engine = query.engine
        self.read_only = not any(item.call in TAKING for item in items)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        found = self.query.run(view, params, clock, source)
        rows = found.rows
        if rows is None:
            rows = datum_rows(found.table, self.query.columns or ())
        made = [self._row(row, clock) for row in rows]
        return PlanOutcome(made, len(made))

    def _row(self, row: Row, clock: Clock) -> Row:
        values: list[object] = []
        for item in self.items:
            args = row[item.first : item.first + item.count]
            if item.call is None:
                values += args
            elif None in args and item.call != "pg_notify":
                values.append(None)
            elif item.call == "setval" and item.count == 2:
                values.append(clock.sequences.setval(*args, True))  # type: ignore[union-attr, arg-type, call-arg]
            else:
                values.append(getattr(clock.sequences, item.call)(*args))
        return tuple(values)  # type: ignore[arg-type]

    def explain(self) -> list[str]:
        calls = ", ".join(item.call for item in self.items if item.call is not None)
        return [f"Call of {calls}", *(f"  -> {line}" for line in self.query.explain())]


def sequence_select(tree: exp.Expression, planned: Callable[[exp.Expression], Plan], reason: str) -> Plan:
    """The plan of such a query; SqlError 0A000 where a call is not an item of the outermost SELECT list."""
    refused = SqlError("0A000", f"functions of sequences are not supported within a query with {reason}")
    if not isinstance(tree, exp.Select) or tree.args.get("distinct"):
        raise refused
    tree = tree.copy()
    items: list[_Item] = []
    outputs: list[exp.Expression] = []
    names: list[str | None] = []
    for node in tree.expressions:
        inner = node.this if isinstance(node, exp.Alias) else node
        if not _is_call(inner):
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
            ):
                raise refused
            items.append(_Item(len(outputs), 1, None))
            names.append(None)
            outputs.append(node)
            continue
        call = str(inner.this).lower()
        items.append(_Item(len(outputs), len(inner.expressions), call))
        names.append(node.alias if isinstance(node, exp.Alias) else output_name(node))
        if len(inner.expressions) not in {len(one) for one in SEQUENCE_FUNCTIONS[call]}:
            raise SqlError("42883", f"function {call} does not exist with {len(inner.expressions)} arguments")
        for place, arg in enumerate(inner.expressions):
            kind = "text" if call == "pg_notify" else ("text", "bigint", "boolean")[place]
            outputs.append(exp.Cast(this=arg, to=exp.DataType.build(kind, dialect="postgres")))
    if not outputs:
        outputs = [exp.Literal.number(1)]
    tree.set("expressions", outputs)
    if takes_from_sequences(tree):
        raise refused
    query = planned(tree)
    given = query.columns or ()
    columns = tuple(
        given[item.first]
        if item.call is None
        else OutputColumn(name or item.call, sequence_result(item.call))
        for item, name in zip(items, names, strict=True)
    )
    return SequenceSelect(query, tuple(items), columns)
