"""CREATE, ALTER and DROP of functions and procedures; DO and CALL.

What is created is validated as PostgreSQL does: a program in PL/pgSQL by its syntax, one in SQL by planning
its statements. Types are kept by what they are and not by their names (``programs.type_texts``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as changed
from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn, Plan
from herdpy_sql.execute.define import DefinePlan
from herdpy_sql.expr import Params, coerce
from herdpy_sql.expr.calls import PROGRAM
from herdpy_sql.expr.casts import castable
from herdpy_sql.objects import CatalogObject, FunctionDefinition
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.drop import carry_out, depended_on, gather
from herdpy_sql.plan.names import cascaded, checked_name, notice, target_schema, with_remarks
from herdpy_sql.plan.own import own
from herdpy_sql.plan.program_calls import Callee, CallPlan, DoPlan, calling, default_of, rows_plan
from herdpy_sql.programs import syntax
from herdpy_sql.programs.routines import (
    Program,
    candidates,
    made_program,
    no_program,
    program_of,
    signature_text,
)
from herdpy_sql.programs.syntax import Fragment
from herdpy_sql.programs.type_texts import kept_text, relation_row, written_type
from herdpy_sql.programs.variables import Names, StatementNames, Variable, converter
from herdpy_sql.types import TEXT, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.expr.coerce import ProgramNames
    from herdpy_sql.parse import Statement
    from herdpy_sql.parse.program_commands import ArgumentClause, ProgramCommand, ProgramSignature
    from herdpy_sql.plan.settings import PlanSettings
    from herdpy_sql.storage import View

    PlanStatement = Callable[[Statement, ProgramNames], Plan]

MAX_SOURCE = 1 << 20
"""The longest program, in characters."""
_PSEUDO = frozenset(
    {"any", "anyelement", "anyarray", "anynonarray", "anyenum", "anyrange", "anymultirange", "anycompatible",
     "anycompatiblearray", "anycompatiblenonarray", "anycompatiblerange", "cstring", "internal", "refcursor",
     "language_handler", "event_trigger", "opaque", "unknown"}
)  # fmt: skip


def plan(command: ProgramCommand, catalog: Catalog, settings: PlanSettings, planned: PlanStatement) -> Plan:
    """The plan of a statement about programs; ``planned`` plans a statement with the names of a program."""
    if command.name == "DO":
        return _do(command, catalog)
    if command.name == "CALL":
        return _call(command, catalog, settings)
    if command.name.startswith("CREATE"):
        return _create(command, catalog, planned)
    if command.name.startswith("DROP"):
        return _drop(command, catalog)
    return _alter(command, catalog)


def _do(command: ProgramCommand, catalog: Catalog) -> Plan:
    language = dict(command.settings)["language"]
    if language != "plpgsql":
        raise _no_language(language)
    definition = FunctionDefinition("inline_code_block", "plpgsql", command.source or "")
    _check_source(definition.source)
    program = made_program(0, "", definition, catalog)
    _check_fragments(program.block)
    _check_returns(program, program.block)
    return calling(DoPlan(program))


def _call(command: ProgramCommand, catalog: Catalog, settings: PlanSettings) -> Plan:
    assert command.call is not None
    tree = parse(command.call)
    node: Any = tree.expressions[0] if isinstance(tree, exp.Select) and len(tree.expressions) == 1 else None
    schema = None
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier):
        schema, node = node.this.name, node.expression
    if not isinstance(node, exp.Anonymous):
        raise SqlError("42883", "procedure does not exist")
    name = node.this.name if isinstance(node.this, exp.Identifier) else str(node.this).lower()
    callee = Callee(name, candidates(catalog, schema, name), catalog)
    node.set(PROGRAM, callee)
    rows, _names = rows_plan(node, None, settings, procedures=True)
    return calling(CallPlan(rows))


# ---------------------------------------------------------------------------- CREATE


def _create(command: ProgramCommand, catalog: Catalog, planned: PlanStatement) -> Plan:
    ((schema, name),) = command.names
    schema, name = target_schema(catalog, schema, name), checked_name(name)
    definition = _definition(command, name, catalog)
    program = made_program(0, schema, definition, catalog)
    _validate(program, catalog, planned)
    full = object_name(program)
    there = catalog.object("function", schema, full)
    if there is not None:
        _check_replaced(program, program_of(there, catalog), replaces="OR REPLACE" in command.options)

    def make(view: View) -> None:
        before = view.catalog.object("function", schema, full)
        if before is None:
            view.put_object(CatalogObject(view.next_id, schema, full, definition))
        else:
            view.put_object(replace(before, definition=definition))

    return DefinePlan(command.name, name, make)


def object_name(program: Program) -> str:
    """The name of a program's object: no two have the same name and types."""
    return f"{program.name}({','.join(kept_text(one.type) for one in program.inputs)})"


def _definition(command: ProgramCommand, name: str, catalog: Catalog) -> FunctionDefinition:
    settings = dict(command.settings)
    procedure = command.name.endswith("PROCEDURE")
    if settings.get("security"):
        raise SqlError("0A000", "SECURITY DEFINER is not supported")
    if settings.get("window"):
        raise SqlError("0A000", "window functions (CREATE FUNCTION ... WINDOW) are not supported")
    if procedure and settings.keys() & {"volatility", "strict", "leakproof", "cost", "rows", "parallel"}:
        raise SqlError("42P13", "invalid attribute in procedure definition")
    language = settings.get("language")
    if command.source is None:
        raise SqlError("42P13", "no function body specified")
    if language is None:
        raise SqlError("42P13", "no language specified")
    if language not in {"sql", "plpgsql"}:
        raise _no_language(language)
    _check_source(command.source)
    arguments = [_argument(one, catalog) for one in command.arguments]
    arguments += [("t", *_argument(one, catalog)[1:]) for one in command.columns or ()]
    _check_arguments(arguments, procedure=procedure)
    gives_rows = command.gives_rows
    return FunctionDefinition(
        name,
        language,
        command.source,
        tuple(arguments),
        _returns(command, arguments, catalog, procedure=procedure),
        gives_rows,
        procedure,
        settings.get("volatility", "v"),
        bool(settings.get("strict")),
        _parallel(settings.get("parallel", "unsafe")),
        bool(settings.get("leakproof")),
        *_numbers(settings, gives_rows=gives_rows),
    )


def _no_language(language: str) -> SqlError:
    if language in {"c", "internal"}:
        return SqlError("0A000", f'functions in language "{language}" are not supported')
    return SqlError("42704", f'language "{language}" does not exist')


def _check_source(source: str) -> None:
    if len(source) > MAX_SOURCE:
        raise SqlError("54000", f"the program is too long: at most {MAX_SOURCE} characters are accepted")


def _parallel(word: str) -> str:
    found = {"unsafe": "u", "restricted": "r", "safe": "s"}.get(word)
    if found is None:
        raise SqlError("42601", 'parameter "parallel" must be SAFE, RESTRICTED, or UNSAFE')
    return found


def _numbers(settings: dict[str, str], *, gives_rows: bool) -> tuple[float, float]:
    """COST and ROWS. SqlError 22023."""
    found = []
    for key in ("cost", "rows"):
        text = settings.get(key)
        value = float(text) if text is not None and re.fullmatch(r"[-+]?\d+(\.\d+)?", text) else 0.0
        if text is not None and value <= 0:
            raise SqlError("22023", f"{key.upper()} must be positive")
        if text is not None and key == "rows" and not gives_rows:
            raise SqlError("22023", "ROWS is not applicable when function does not return a set")
        found.append(value)
    return found[0], found[1]


def _argument(one: ArgumentClause, catalog: Catalog) -> tuple[str, str, str, str]:
    if one.mode == "v":
        raise SqlError("0A000", "VARIADIC is not supported")
    if one.default and one.mode == "o":
        raise SqlError("42P13", "only input parameters can have default values")
    if one.type.upper().startswith("SETOF "):
        raise SqlError("42P13", "functions cannot accept set arguments")
    return one.mode, one.name, kept_text(declared_type(one.type, catalog)), one.default


_OF_COLUMN = re.compile(r"(.+?)\s*%\s*TYPE\s*\Z", re.IGNORECASE | re.DOTALL)
_ROW = re.compile(r"(.+?)\s*%\s*ROWTYPE\s*\Z", re.IGNORECASE | re.DOTALL)


def declared_type(text: str, catalog: Catalog) -> SqlType:
    """The type of an argument or a variable, ``table.column%TYPE`` too. SqlError 42704, 42703, 0A000."""
    column = _OF_COLUMN.match(text)
    if column is not None:
        return _type_of_column(names_in(column[1]), catalog)
    if text.strip().lower() in _PSEUDO:
        raise SqlError("0A000", f"type {text.strip().lower()} is not supported")
    return written_type(text, catalog)


def names_in(text: str) -> list[str]:
    """The parts of a name with points, folded unless quoted."""
    parts = re.findall(r'"((?:[^"]|"")*)"|([^\s."]+)', text)
    return [quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in parts]


def _type_of_column(names: list[str], catalog: Catalog) -> SqlType:
    if len(names) < 2:
        raise SqlError("42601", "invalid type name", detail="A column's name is qualified by its table.")
    row = row_named(names[:-1], catalog)
    found = next((type_ for name, type_ in row if name == names[-1]), None)
    if found is None:
        raise SqlError("42703", f'column "{names[-1]}" of relation "{names[-2]}" does not exist')
    return found


def row_named(names: list[str], catalog: Catalog) -> tuple[tuple[str, SqlType], ...]:
    """The columns of the table or view of that name. SqlError 42P01."""
    found = catalog.find(names[0] if len(names) > 1 else None, names[-1])
    row = relation_row(found, catalog) if isinstance(found, Table | CatalogObject) else None
    if row is None:
        raise SqlError("42P01", f'relation "{".".join(names)}" does not exist')
    return row


def _check_arguments(arguments: Sequence[tuple[str, str, str, str]], *, procedure: bool) -> None:
    seen: dict[str, str] = {}
    has_default = False
    for mode, name, _type, default in arguments:
        clashes = seen.get(name) is not None and (mode != "o" or seen[name] != "i") if name else False
        if name and name in seen and (clashes or mode in {"i", "b", "t"}):
            raise SqlError("42P13", f'parameter name "{name}" used more than once')
        if name:
            seen[name] = mode
        if mode in {"i", "b"}:
            if has_default and not default:
                raise SqlError(
                    "42P13", "input parameters after one with a default value must also have defaults"
                )
            has_default = has_default or bool(default)
        elif mode == "o" and has_default and procedure:
            raise SqlError("42P13", "procedure OUT parameters cannot appear after one with a default value")


def _returns(
    command: ProgramCommand,
    arguments: Sequence[tuple[str, str, str, str]],
    catalog: Catalog,
    *,
    procedure: bool,
) -> str:
    """What the definition keeps of the type of the result. SqlError 42P13."""
    outputs = [type_ for mode, _name, type_, _default in arguments if mode in {"o", "b", "t"}]
    declared = "record" if len(outputs) > 1 or (outputs and procedure) else outputs[0] if outputs else ""
    text = command.returns
    if command.columns is not None:
        if any(mode in {"o", "b"} for mode, *_ in arguments):
            raise SqlError("42P13", "OUT and INOUT arguments aren't allowed in TABLE functions")
        return declared
    if text is None:
        if not declared and not procedure:
            raise SqlError("42P13", "function result type must be specified")
        return declared or "void"
    found = _returned(text, catalog)
    if declared and found != declared:
        raise SqlError("42P13", f"function result type must be {declared} because of OUT parameters")
    return found


def _returned(text: str, catalog: Catalog) -> str:
    lowered = text.strip().lower()
    if lowered in {"void", "record", "trigger"}:
        return lowered
    if _OF_COLUMN.match(text) is None and lowered not in _PSEUDO:
        row = _ROW.match(text)
        names = names_in(row[1] if row is not None else text)
        found = (
            catalog.find(names[0] if len(names) > 1 else None, names[-1]) if len(names) in {1, 2} else None
        )
        if isinstance(found, Table | CatalogObject) and relation_row(found, catalog) is not None:
            return f"%{found.id}"
    return kept_text(declared_type(text, catalog))


def _check_replaced(program: Program, there: Program, *, replaces: bool) -> None:
    """That a definition may take the place of another one. SqlError 42723, 42809, 42P13."""
    kind = "procedure" if there.definition.procedure else "function"
    if not replaces:
        raise SqlError("42723", f'function "{program.name}" already exists with same argument types')
    new, old = program.definition, there.definition
    if new.procedure is not old.procedure:
        raise SqlError("42809", "cannot change routine kind", detail=f'"{program.name}" is a {kind}.')
    hint = f"Use DROP {kind.upper()} {program.signature} first."
    if (new.returns, new.gives_rows) != (old.returns, old.gives_rows):
        raise SqlError("42P13", "cannot change return type of existing function", hint=hint)
    if [one.type for one in program.outputs] != [one.type for one in there.outputs]:
        raise SqlError("42P13", "cannot change return type of existing function", hint=hint)
    for before, after in zip(there.inputs, program.inputs, strict=True):
        if before.name and before.name != after.name:
            raise SqlError("42P13", f'cannot change name of input parameter "{before.name}"', hint=hint)
        if before.default and not after.default:
            raise SqlError("42P13", "cannot remove parameter defaults from existing function", hint=hint)


# ---------------------------------------------------------------------------- validation


def _validate(program: Program, catalog: Catalog, planned: PlanStatement) -> None:
    """That a program is one. SqlError 42601, 42P13, and for one in SQL all that planning raises."""
    for one in program.inputs:
        if one.default:
            params = Params()
            value = own(default_of(one.default, params), "DEFAULT of an argument")
            coerce(value, one.type, "assignment", params)
            if params.types:
                raise SqlError("42P02", "there is no parameter $1")
    if program.definition.returns == "trigger":
        if program.definition.language == "sql":
            raise SqlError("42P13", "SQL functions cannot return type trigger")
        if program.arguments:
            raise SqlError(
                "42P13", "trigger functions cannot have declared arguments",
                hint="The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead.",
            )  # fmt: skip
    if program.definition.language == "plpgsql":
        _check_fragments(program.block)
        _check_returns(program, program.block)
    else:
        _check_statements(program, planned)


def _check_fragments(node: Any) -> None:
    """That the SQL within a program can be parsed; what is not supported is an error when it runs."""
    for fragment in _fragments(node):
        statements = split(fragment.text)
        if len(statements) != 1:
            raise SqlError("42601", "syntax error at end of input")
        try:
            tree = parse(statements[0])
        except SqlError as error:
            if error.sqlstate in {"42601", "54001"}:
                error.position = None
                raise
            continue
        if fragment.is_expression and isinstance(tree, exp.Select) and len(tree.expressions) != 1:
            raise SqlError("42601", f"query returned {len(tree.expressions)} columns")


def _check_returns(program: Program, node: Any) -> None:
    """That RETURN and its kin give what the program is declared to give. SqlError 42804, 42601."""
    if isinstance(node, tuple):
        for one in node:
            _check_returns(program, one)
    elif isinstance(node, syntax.Return):
        check_return(program, node)
    elif isinstance(node, syntax.ReturnNext | syntax.ReturnQuery):
        check_return_rows(program, node)
    elif is_dataclass(node) and not isinstance(node, Fragment):
        for field in fields(node):
            _check_returns(program, getattr(node, field.name))


def check_return(program: Program, one: syntax.Return) -> None:
    """See :func:`_check_returns`."""
    returns = program.definition.returns
    if one.value is None:
        if program.gives_rows or program.outputs or returns == "void":
            return
        raise SqlError("42601", 'missing expression at or near ";"')
    if program.gives_rows:
        raise SqlError(
            "42804", "RETURN cannot have a parameter in function returning set",
            hint="Use RETURN NEXT or RETURN QUERY.",
        )  # fmt: skip
    if program.definition.procedure or (program.id == 0 and program.schema == ""):
        raise SqlError("42804", "RETURN cannot have a parameter in a procedure")
    if program.outputs:
        raise SqlError("42804", "RETURN cannot have a parameter in function with OUT parameters")
    if returns == "void":
        raise SqlError("42804", "RETURN cannot have a parameter in function returning void")


def check_return_rows(program: Program, one: syntax.ReturnNext | syntax.ReturnQuery) -> None:
    """See :func:`_check_returns`."""
    word = "NEXT" if isinstance(one, syntax.ReturnNext) else "QUERY"
    if not program.gives_rows:
        raise SqlError("42804", f"cannot use RETURN {word} in a non-SETOF function")
    if isinstance(one, syntax.ReturnNext):
        if one.value is None and not program.outputs:
            raise SqlError("42601", 'missing expression at or near ";"')
        if one.value is not None and program.outputs:
            raise SqlError("42804", "RETURN NEXT cannot have a parameter in function with OUT parameters")


def _fragments(node: Any) -> Iterator[Fragment]:
    if isinstance(node, Fragment):
        yield node
    elif isinstance(node, tuple):
        for one in node:
            yield from _fragments(one)
    elif is_dataclass(node):
        for field in fields(node):
            yield from _fragments(getattr(node, field.name))


def argument_names(program: Program) -> tuple[Names, list[tuple[tuple[str, ...], SqlType]]]:
    """The names of a program's arguments, without values, and what $1, $2 ... mean."""
    names = Names(None, program.name)
    numbered: list[tuple[tuple[str, ...], SqlType]] = []
    for at, one in enumerate(program.inputs, 1):
        variable = Variable(one.name or f"${at}", one.type)
        names.held[f"${at}"] = variable
        numbered.append(((f"${at}",), one.type))
        if one.name:
            names.held[one.name] = variable
    return names, numbered


def _check_statements(program: Program, planned: PlanStatement) -> None:
    """Plan the statements of a program in SQL, and see that the last gives what is declared."""
    last: Plan | None = None
    defines = False
    for fragment in program.statements:
        (statement,) = split(fragment.text)
        names, numbered = argument_names(program)
        try:
            last = planned(statement, StatementNames(names, numbered, prefers_columns=True))
        except SqlError as error:
            if defines and error.sqlstate[:2] in {"42", "3F"}:
                return  # it may be about what a statement before it makes
            error.position = None
            raise
        if isinstance(last, CallPlan) and last.columns is not None:
            raise SqlError(
                "0A000", "calling procedures with output arguments is not supported in SQL functions"
            )
        defines = defines or isinstance(last, DefinePlan) or last.tag.startswith("CREATE")
    _check_result(program, last)


def _check_result(program: Program, last: Plan | None) -> None:
    returns = program.definition.returns
    if returns == "void" and not program.outputs:
        return
    shown = "record" if program.row is not None else str(program.result) if program.result else returns
    mismatch = f"return type mismatch in function declared to return {shown}"
    if last is None or last.columns is None:
        raise SqlError(
            "42P13", mismatch,
            detail="Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.",
        )  # fmt: skip
    if program.is_record:
        return
    declared = [type_ for _, type_ in program.row] if program.row is not None else [program.result or TEXT]
    if program.row is None and len(last.columns) != 1:
        raise SqlError("42P13", mismatch, detail="Final statement must return exactly one column.")
    if len(last.columns) != len(declared):
        few = "few" if len(last.columns) < len(declared) else "many"
        raise SqlError("42P13", mismatch, detail=f"Final statement returns too {few} columns.")
    for column, target in zip(last.columns, declared, strict=True):
        if not is_result(column, target):
            detail = f"Actual return type is {column.type.name}."
            raise SqlError("42P13", mismatch, detail=detail)
        converter(column.type, target)


def is_result(column: OutputColumn, target: SqlType) -> bool:
    """Whether a column may stand for a result of that type: PostgreSQL asks for an assignment cast."""
    return column.type.base is Base.UNKNOWN or castable(column.type, target, "assignment")


# ---------------------------------------------------------------------------- DROP and ALTER


def find_programs(signature: ProgramSignature, kind: str, catalog: Catalog) -> CatalogObject:
    """The function or procedure that DROP or ALTER names. SqlError 42883, 42725, 42809."""
    found = candidates(catalog, signature.schema, signature.name)
    word = kind.lower()
    shown = f"{signature.schema}.{signature.name}" if signature.schema else signature.name
    if signature.arguments is None:
        found = [one for one in found if kind == "ROUTINE" or _is_of(one, kind)]
        if not found:
            raise SqlError("42883", f'could not find a {word} named "{shown}"')
        if len(found) > 1:
            raise SqlError(
                "42725", f'{word} name "{shown}" is not unique',
                hint=f"Specify the argument list to select the {word} unambiguously.",
            )  # fmt: skip
        return found[0]
    types = [declared_type(one.type, catalog) for one in signature.arguments]
    inputs = [
        type_ for one, type_ in zip(signature.arguments, types, strict=True) if one.mode in {"i", "b", "v"}
    ]
    said = any(one.has_mode for one in signature.arguments)
    matching = [one for one in found if _matches(program_of(one, catalog), inputs, types, said=said)]
    if len(matching) > 1:
        raise SqlError("42725", f'{word} name "{shown}" is not unique')
    if matching:
        return _of_kind(matching[0], kind, catalog)
    raise no_program(word, shown, inputs)


def _matches(program: Program, inputs: Sequence[SqlType], types: Sequence[SqlType], *, said: bool) -> bool:
    """Whether a list of types means a program: its inputs or, of a procedure, all of its arguments."""
    known = [[kept_text(arg.type) for arg in program.inputs]]
    if program.definition.procedure:
        listed = [kept_text(arg.type) for arg in program.arguments]
        known = [listed] if said else [*known, listed]
    return [kept_text(one) for one in (types if said and program.definition.procedure else inputs)] in known


def _of_kind(one: CatalogObject, kind: str, catalog: Catalog) -> CatalogObject:
    if kind != "ROUTINE" and not _is_of(one, kind):
        raise SqlError("42809", f"{program_of(one, catalog).signature} is not a {kind.lower()}")
    return one


def _is_of(one: CatalogObject, kind: str) -> bool:
    assert isinstance(one.definition, FunctionDefinition)
    return one.definition.procedure is (kind == "PROCEDURE")


def _drop(command: ProgramCommand, catalog: Catalog) -> Plan:
    kind = command.name.split()[-1]
    found: list[CatalogObject] = []
    skipped = []
    for signature in command.signatures:
        try:
            one = find_programs(signature, kind, catalog)
        except SqlError as error:
            if error.sqlstate not in {"42883", "42704", "3F000"} or "IF EXISTS" not in command.options:
                raise
            skipped.append(notice(_skipping(signature, kind, catalog)))
            continue
        if one not in found:
            found.append(one)
    dropping = gather(found, catalog)
    if dropping.reasons and "CASCADE" not in command.options:
        raise depended_on(f"cannot drop function {program_of(found[0], catalog).signature}", dropping.reasons)
    text = ", ".join(one.name for one in found)
    plan = DefinePlan(command.name, text, (lambda view: carry_out(view, dropping)) if found else None)
    return with_remarks(plan, (*skipped, *cascaded(dropping.reasons)))


def _skipping(signature: ProgramSignature, kind: str, catalog: Catalog) -> str:
    if signature.schema is not None and not catalog.has_schema(signature.schema):
        return f'schema "{signature.schema}" does not exist, skipping'
    shown = f"{signature.schema}.{signature.name}" if signature.schema else signature.name
    listed = ""
    if signature.arguments is not None:
        types = []
        for one in signature.arguments:
            try:
                types.append(str(declared_type(one.type, catalog)))
            except SqlError:
                return f'type "{one.type}" does not exist, skipping'
        listed = ",".join(types)
    return f"{kind.lower()} {shown}({listed}) does not exist, skipping"


def _alter(command: ProgramCommand, catalog: Catalog) -> Plan:
    kind = command.name.split()[-1]
    one = find_programs(command.signatures[0], kind, catalog)
    program = program_of(one, catalog)
    if command.action == "OWNER":
        raise SqlError("0A000", f"{command.name} ... OWNER TO is not supported")
    if command.action == "OPTIONS":
        definition = _with_options(program, dict(command.settings))
        return DefinePlan(
            command.name, one.name, lambda view: view.put_object(replace(one, definition=definition))
        )
    schema, name = one.schema, program.name
    if command.action == "RENAME":
        name = checked_name(command.word)
    else:
        schema = target_schema(catalog, command.word, name)
        if schema == one.schema:
            return DefinePlan(command.name, one.name, None)
    definition = changed(program.definition, name=name)
    moved = made_program(one.id, schema, definition, catalog)
    if catalog.object("function", schema, object_name(moved)) is not None:
        raise SqlError(
            "42723",
            f"function {signature_text(name, [arg.type for arg in program.inputs])} "
            f'already exists in schema "{schema}"',
        )
    made = replace(one, schema=schema, name=object_name(moved), definition=definition)
    return DefinePlan(command.name, one.name, lambda view: view.put_object(made))


def _with_options(program: Program, settings: dict[str, str]) -> FunctionDefinition:
    definition = program.definition
    if settings.get("security") or settings.get("window"):
        raise SqlError("0A000", "SECURITY DEFINER is not supported")
    if definition.procedure and settings.keys() - {"security"}:
        raise SqlError("42P13", "invalid attribute in procedure definition")
    cost, rows = _numbers(settings, gives_rows=definition.gives_rows)
    return changed(
        definition,
        volatility=settings.get("volatility", definition.volatility),
        strict=bool(settings["strict"]) if "strict" in settings else definition.strict,
        leakproof=bool(settings["leakproof"]) if "leakproof" in settings else definition.leakproof,
        parallel=_parallel(settings["parallel"]) if "parallel" in settings else definition.parallel,
        cost=cost or definition.cost,
        rows=rows or definition.rows,
    )
