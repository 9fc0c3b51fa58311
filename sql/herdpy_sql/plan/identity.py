"""Columns that count by themselves: SERIAL and GENERATED ... AS IDENTITY, and OVERRIDING in INSERT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import is_regclass
from herdpy_sql.plan.assignment import is_default
from herdpy_sql.plan.sequences import build
from herdpy_sql.sequences import find_sequence
from herdpy_sql.types import BIGINT, INTEGER, SMALLINT, Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import SequenceDefinition
    from herdpy_sql.parse.object_commands import Option

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


def check_overriding(tree: exp.Insert, table: Table, targets: Sequence[int], source: object) -> None:
    """Values for identity columns: refused where the column is ALWAYS its own, unless OVERRIDING says so.

    SqlError 428C9. With OVERRIDING USER VALUE they give way to the column's own.
    """
    overriding = str(tree.args.get("overriding") or "")
    for place, position in enumerate(targets):
        column = table.columns[position]
        if not column.identity or overriding == "SYSTEM":
            continue
        if isinstance(source, exp.Values):
            for row in source.expressions:
                if isinstance(row, exp.Tuple):
                    if place < len(row.expressions):
                        _judge(column.name, column.identity, overriding, row.expressions[place])
                elif place == 0:
                    _judge(column.name, column.identity, overriding, row.unnest())
        elif overriding:
            raise SqlError("0A000", "OVERRIDING USER VALUE is not supported with a query")
        elif column.identity == "ALWAYS" and isinstance(source, exp.Expression):
            raise _not_default(column.name)


def _judge(name: str, identity: str, overriding: str, node: exp.Expression) -> None:
    if is_default(node):
        return
    if overriding == "USER":
        node.replace(exp.Var(this="DEFAULT"))
    elif identity == "ALWAYS":
        raise _not_default(name)


def _not_default(name: str) -> SqlError:
    return SqlError(
        "428C9",
        f'cannot insert a non-DEFAULT value into column "{name}"',
        detail=f'Column "{name}" is an identity column defined as GENERATED ALWAYS.',
        hint="Use OVERRIDING SYSTEM VALUE to override.",
        column=name,
    )
