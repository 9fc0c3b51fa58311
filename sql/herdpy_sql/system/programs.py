"""Functions and procedures of the catalog as pg_proc shows them, and the texts that people read of them.

The system's own functions are not listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_sql.objects import FunctionDefinition
from herdpy_sql.programs.routines import Program, ProgramArgument, program_of
from herdpy_sql.quoting import quote_ident
from herdpy_sql.rights.held import subject_of
from herdpy_sql.system.contents import Context, Rows, rows_of, schema_oid
from herdpy_sql.system.ownership import owned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.objects import CatalogObject

SQL_OID, PLPGSQL_OID = 14, 13_779
"""The ids of languages."""
_VOID, _TRIGGER, _RECORD = 2278, 2279, 2249
_WORDS = {"o": "OUT ", "b": "INOUT "}


def programs(catalog: Catalog) -> Iterator[tuple[CatalogObject, Program]]:
    """All functions and procedures, with their objects."""
    for one in catalog.objects.values():
        if isinstance(one.definition, FunctionDefinition):
            yield one, program_of(one, catalog)


def _result_oid(program: Program) -> int:
    definition = program.definition
    if program.result is not None:
        return program.result.oid
    if definition.returns == "trigger":
        return _TRIGGER
    if definition.returns == "void" and not program.outputs:
        return _VOID
    return _RECORD


@rows_of("pg_catalog", "pg_proc")
def _procedures(context: Context) -> Rows:
    for one, program in programs(context.catalog):
        definition, inputs, arguments = program.definition, program.inputs, program.arguments
        whose = owned(context, subject_of(one))
        shows_all = bool(program.outputs)
        defaults = [arg.default for arg in inputs if arg.default]
        row: dict[str, Any] = {
            "oid": one.oid,
            "proname": program.name,
            "pronamespace": schema_oid(context.catalog, one.schema),
            "proowner": whose.oid,
            "prolang": SQL_OID if definition.language == "sql" else PLPGSQL_OID,
            "procost": definition.cost or 100.0,
            "prorows": definition.rows or (1000.0 if program.gives_rows else 0.0),
            "provariadic": 0,
            "prosupport": "-",
            "prokind": "p" if definition.procedure else "f",
            "prosecdef": False,
            "proleakproof": definition.leakproof,
            "proisstrict": definition.strict,
            "proretset": program.gives_rows,
            "provolatile": definition.volatility,
            "proparallel": definition.parallel,
            "pronargs": len(inputs),
            "pronargdefaults": len(defaults),
            "prorettype": _result_oid(program),
            "proargtypes": [arg.type.oid for arg in inputs],
            "proallargtypes": [arg.type.oid for arg in arguments] if shows_all else None,
            "proargmodes": [arg.mode for arg in arguments] if shows_all else None,
            "proargnames": [arg.name for arg in arguments] if any(arg.name for arg in arguments) else None,
            "proargdefaults": ", ".join(defaults) or None,
            "prosrc": definition.source,
            "proacl": whose.acl,
        }
        yield row


def _shown(arg: ProgramArgument, *, defaults: bool = True) -> str:
    mode = _WORDS.get(arg.mode, "")
    name = f"{quote_ident(arg.name)} " if arg.name else ""
    default = f" DEFAULT {arg.default}" if defaults and arg.default else ""
    return f"{mode}{name}{arg.type.name}{default}"


def arguments_text(program: Program, *, identity: bool = False) -> str:
    """As pg_get_function_arguments has it; with ``identity``, as ALTER and DROP want it."""
    shown = [one for one in program.arguments if one.mode != "t"]
    if identity:
        shown = [one for one in shown if one.mode != "o" or program.definition.procedure]
    texts = [_shown(one, defaults=not identity) for one in shown]
    if program.definition.procedure:
        texts = [text if one.mode != "i" else f"IN {text}" for one, text in zip(shown, texts, strict=True)]
    return ", ".join(texts)


def result_text(program: Program, catalog: Catalog) -> str | None:
    """As pg_get_function_result has it; None of a procedure."""
    definition = program.definition
    if definition.procedure:
        return None
    columns = [one for one in program.arguments if one.mode == "t"]
    if columns:
        return f"TABLE({', '.join(_shown(one) for one in columns)})"
    if program.result is not None:
        shown = program.result.name
    elif definition.returns.startswith("%"):
        number = int(definition.returns[1:])
        one = catalog.tables.get(number) or catalog.objects[number]
        shown = quote_ident(one.name)
        if catalog.find(None, one.name) is not one:
            shown = f"{quote_ident(one.schema)}.{shown}"
    else:
        shown = "record" if program.row is not None else definition.returns
    return f"SETOF {shown}" if program.gives_rows else shown


def definition_text(one: CatalogObject, program: Program, catalog: Catalog) -> str:
    """The statement that makes it, as pg_get_functiondef has it."""
    definition = program.definition
    kind = "PROCEDURE" if definition.procedure else "FUNCTION"
    name = f"{quote_ident(one.schema)}.{quote_ident(program.name)}"
    lines = [f"CREATE OR REPLACE {kind} {name}({arguments_text(program)})"]
    result = result_text(program, catalog)
    if result is not None:
        lines.append(f" RETURNS {result}")
    lines.append(f" LANGUAGE {definition.language}")
    words = [word for word in (
        {"i": "IMMUTABLE", "s": "STABLE"}.get(definition.volatility),
        {"s": "PARALLEL SAFE", "r": "PARALLEL RESTRICTED"}.get(definition.parallel),
        "STRICT" if definition.strict else None,
        "LEAKPROOF" if definition.leakproof else None,
        f"COST {definition.cost:g}" if definition.cost not in {0, 100} else None,
        f"ROWS {definition.rows:g}" if definition.rows not in {0, 1000} else None,
    ) if word]  # fmt: skip
    if words:
        lines.append(f" {' '.join(words)}")
    tag = "$procedure$" if definition.procedure else "$function$"
    while tag in definition.source:
        tag = tag[:-1] + "x$"
    lines.append(f"AS {tag}{definition.source}{tag}")
    return "\n".join(lines) + "\n"


def texts(context: Context) -> Iterable[tuple[Any, ...]]:
    """By id: definition, arguments, identity arguments, result."""
    catalog = context.catalog
    for one, program in programs(catalog):
        yield (
            one.oid,
            definition_text(one, program, catalog),
            arguments_text(program),
            arguments_text(program, identity=True),
            result_text(program, catalog),
        )


def names_of(context: Context) -> Iterable[tuple[Any, ...]]:
    """By id: the name as regproc shows it, with its arguments as regprocedure does, whether it is visible."""
    catalog = context.catalog
    for one, program in programs(catalog):
        visible = one.schema in catalog.path
        name = quote_ident(program.name)
        shown = name if visible else f"{quote_ident(one.schema)}.{name}"
        listed = ",".join(arg.type.name for arg in program.inputs)
        yield one.oid, shown, f"{shown}({listed})", visible
