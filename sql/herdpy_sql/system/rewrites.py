"""Expressions in queries over the catalog become DuckDB's: names, operators, parameters, casts, functions.

Each handler takes the ``Rewriter`` and a node. DuckDB's LIKE knows no escape character unless one is named,
and has no LIKE ANY and LIKE ALL. Rows of the catalog have no versions of their own, so xmin and its
relatives are constants: whoever remembers them to ask for what has changed since is shown everything again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.coerce import MAX_PARAMS
from herdpy_sql.library.hashtext import hashtext
from herdpy_sql.system import calls, casts
from herdpy_sql.system.advisory import ANSWERING, NAMES
from herdpy_sql.system.calls import privilege_template
from herdpy_sql.system.definitions import table_oid
from herdpy_sql.system.rewriter import (
    HOLE,
    VECTORS,
    Rewriter,
    SessionAction,
    folded,
    function_name,
    handles,
    undefined,
)
from herdpy_sql.system_relations import CATALOG, INFORMATION, column_types, find_relation, relations
from herdpy_sql.types import BIGINT, BOOLEAN, INTEGER, OID, SMALLINT, TEXT, TIMESTAMPTZ, SqlType, array_of

_LIST_PARAMETER = re.compile(r"\$p\d+ AS \w+\[\]")
"""A parameter that is an array, and so a list already."""


def list_of(elements: list[str], *, number: bool) -> exp.Expression:
    """A list of literals."""
    made = [exp.Literal.number(e) if number else exp.Literal.string(e) for e in elements]
    return exp.Array(expressions=made)


@handles(exp.Any)
def each(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """What ANY or ALL is of: a list, or a query."""
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    elements = casts.array_literal(inner)
    if elements is not None:
        inner = list_of(elements, number=all(e.lstrip("-").isdigit() for e in elements))
    elif _LIST_PARAMETER.search(inner.sql("duckdb")):
        pass
    elif isinstance(inner, exp.Cast) and inner.find(exp.Parameter) and inner.args["to"].args.get("nested"):
        inner = rewriter.template("s_array(:1)", inner.this)
    elif not isinstance(inner, exp.Array) and (
        isinstance(inner, exp.Parameter | exp.Placeholder) or "$p" in inner.sql("duckdb")
    ):
        inner = rewriter.template("s_array(:1)", inner)
        compared = node.parent
        if isinstance(compared, exp.Binary):
            compared.set("this", exp.cast(compared.this.copy(), "VARCHAR"))
    if isinstance(inner, exp.Array) and len(inner.expressions) == 1:
        query = inner.expressions[0]
        if isinstance(query, exp.Query):  # ARRAY(SELECT ...): any of its rows
            inner = query
    if isinstance(inner, exp.Query):
        node.set("this", exp.Paren(this=inner) if not isinstance(inner, exp.Subquery) else inner)
        return None
    node.set("this", exp.Paren(this=inner))
    return None


_EACH = "list_transform(:2, lambda s_one: {test}(:1, s_one, '\\'))"
_EVERY = (
    "CASE WHEN :1 IS NULL THEN NULL WHEN list_contains(:1, {settles}) THEN {settles} "
    "WHEN list_count(:1) < len(:1) THEN NULL ELSE NOT {settles} END"
)


@handles(exp.Like, exp.ILike)
def like(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """A comparison with one pattern, or with each of several."""
    pattern = node.expression
    if isinstance(pattern, exp.Any | exp.All):
        return _each(rewriter, node, pattern)
    if isinstance(node.parent, exp.Escape):
        return None
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _each(rewriter: Rewriter, node: Any, patterns: Any) -> exp.Expression:
    """True as soon as one decides it, else NULL as soon as one is NULL: as PostgreSQL's ANY and ALL."""
    several = patterns.this
    while isinstance(several, exp.Paren | exp.Subquery):
        several = several.this
    if isinstance(several, exp.Query):
        several = exp.Array(expressions=[several.copy()])
    name = ("not_" if node.args.get("negate") else "") + ("ilike" if isinstance(node, exp.ILike) else "like")
    tests = rewriter.template(_EACH.format(test=f"{name}_escape"), node.this, several)
    return rewriter.template(_EVERY.format(settles=str(isinstance(patterns, exp.Any)).lower()), tests)


@handles(exp.All)
def _all(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    return each(rewriter, node) if isinstance(node.parent, exp.Like | exp.ILike) else None


@handles(exp.ByteString)
def _escapes(rewriter: Rewriter, node: Any) -> exp.Expression:
    """E'...': the text that it means was read already; DuckDB would read it again."""
    return exp.Literal.string(str(node.this))


@handles(exp.Substring)
def _substring(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """``substring(text FROM pattern)``: what the pattern's first group matched, or NULL."""
    pattern = node.args.get("start")
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        return None
    if node.args.get("length") is not None:
        raise SqlError("0A000", "substring with an escape is not supported in queries over the catalog")
    group = 1 if "(" in str(pattern.this).replace("(?", "") else 0
    return rewriter.template(
        f"CASE WHEN regexp_matches(:1, :2) THEN regexp_extract(:1, :2, {group}) END", node.this, pattern
    )


@handles(exp.TimeToStr)
def _time_text(rewriter: Rewriter, node: Any) -> exp.Expression:
    """to_char of a moment, where the parser knows it: its format is PostgreSQL's again."""
    given = exp.TimeToStr(this=node.this.copy(), format=node.args["format"].copy()).sql("postgres")
    form: list[exp.Expression] = exp.maybe_parse(given, dialect=None).expressions
    return to_char(rewriter, [node.this, form[1]])


def to_char(rewriter: Rewriter, arguments: list[exp.Expression]) -> exp.Expression:
    """to_char of a moment with time zone, which is what the catalog has."""
    if len(arguments) != 2:
        raise undefined("to_char")
    return rewriter.template("s_to_char(epoch_us(CAST(:1 AS TIMESTAMPTZ)), :2)", *arguments)


_VERSIONS = {"xmin": 2, "xmax": 0, "cmin": 0, "cmax": 0}
"""2 is the number that rows have in PostgreSQL which are older than all transactions."""


def system_column(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """What such a column becomes; None for other columns."""
    name = node.name.lower()
    if name in _VERSIONS:
        return exp.cast(exp.Literal.number(_VERSIONS[name]), "BIGINT")
    if name == "tableoid":
        return exp.cast(exp.Literal.number(_relation_oid(rewriter, node)), "BIGINT")
    return None


def _relation_oid(rewriter: Rewriter, node: Any) -> int:
    """The id of the relation that a column is one of; 0 of what is a query's."""
    wanted = folded(node.args["table"]) if node.args.get("table") else None
    for select in _around(node):
        tables = [one for one in _sources(select) if isinstance(one, exp.Table)]
        for table in tables:
            if wanted is None and len(tables) == 1:
                return _oid(rewriter, table)
            if wanted is not None and table.alias_or_name.lower().rpartition(".")[2] == wanted.lower():
                return _oid(rewriter, table)
    return 0


def _around(node: Any) -> Iterator[exp.Select]:
    select = node.parent_select
    while select is not None:
        yield select
        select = select.parent_select


def _sources(select: exp.Select) -> Iterator[Any]:
    given = select.args.get("from_") or select.args.get("from")
    if given is not None:
        yield given.this
    for join in select.args.get("joins") or ():
        yield join.this


def _oid(rewriter: Rewriter, table: exp.Table) -> int:
    """Of a relation as it stands in a text, whether it has been rewritten already or not."""
    schema = folded(table.args["db"]) if table.args.get("db") else None
    name = folded(table.this) if isinstance(table.this, exp.Identifier) else ""
    if schema is None and "." in name:  # rewritten
        schema, _, name = name.partition(".")
    own = rewriter.catalog.find(schema, name)
    if isinstance(own, Table):
        return table_oid(own)
    found = relations().get((schema, name)) if schema else find_relation(None, name)
    return 0 if found is None else found.oid


_TYPES = {
    "oid": OID, "xid": BIGINT, "int8": BIGINT, "int4": INTEGER, "int2": SMALLINT, "bool": BOOLEAN,
    "timestamptz": TIMESTAMPTZ,
}  # fmt: skip


@handles(exp.Parameter)
def _parameter(rewriter: Rewriter, node: Any) -> exp.Expression:
    text = str(node.this.this if isinstance(node.this, exp.Expression) else node.this)
    if not (text.isascii() and text.isdigit()):
        raise SqlError("42601", f'syntax error at or near "{node.sql("postgres")}"')
    number = int(text) if len(text) < 9 else 10**9
    if not 1 <= number <= MAX_PARAMS:
        raise SqlError("42P02", f"there is no parameter ${number}")
    return rewriter.parameter(number, _wanted(node))


def _wanted(node: exp.Expression) -> SqlType:
    """The type that a parameter's place asks for."""
    parent: Any = node.parent
    while isinstance(parent, exp.Paren):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Limit | exp.Offset):
        return BIGINT
    if isinstance(parent, exp.Anonymous) and str(parent.this).lower() in NAMES:
        return BIGINT if len(parent.expressions) == 1 else INTEGER
    if isinstance(parent, exp.Cast):
        element = casts.element_name(parent.args["to"])
        if element is not None:
            return array_of(_named(element))
        return _TYPES.get(casts.target_name(parent.args["to"]) or "", _standard(parent.args["to"]))
    if isinstance(parent, exp.Any) and isinstance(parent.parent, exp.Binary):
        other = parent.parent.this
        if isinstance(other, exp.Column) and other.name in column_types():
            return array_of(_TYPES.get(column_types()[other.name], TEXT))
        return TEXT
    if isinstance(parent, exp.Binary | exp.In):
        other = parent.this if parent.this is not node else parent.args.get("expression")
        if isinstance(other, exp.Column):
            return _TYPES.get(column_types().get(other.name, "text"), TEXT)
        if isinstance(other, exp.Anonymous):
            kind = calls.VALUES.get(str(other.this).lower(), ("", ""))[1]
            return {"INTEGER": INTEGER, "BOOLEAN": BOOLEAN, "TIMESTAMPTZ": TIMESTAMPTZ}.get(kind, TEXT)
    return TEXT


def _named(name: str) -> SqlType:
    plain = {"integer": INTEGER, "int": INTEGER, "bigint": BIGINT, "smallint": SMALLINT, "boolean": BOOLEAN}
    return _TYPES.get(name) or plain.get(name, TEXT)


def _standard(to: Any) -> SqlType:
    names = {"INT": INTEGER, "BIGINT": BIGINT, "SMALLINT": SMALLINT, "BOOLEAN": BOOLEAN}
    return names.get(getattr(getattr(to, "this", None), "name", ""), TEXT)


@handles(exp.Cast)
def _cast(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    to, inner = node.args["to"], node.this
    kind = casts.id_kind(to)
    if kind is not None:
        return _id_cast(rewriter, node, kind)
    elements = casts.array_literal(inner)
    nested = isinstance(to, exp.DataType) and to.args.get("nested")
    if elements is not None and (nested or casts.element_name(to) is not None):
        node.set("this", list_of(elements, number=False))
    if isinstance(inner, exp.Literal) and casts.target_name(to) in ("regproc", "regprocedure"):
        kind = str(casts.target_name(to)).removeprefix("reg")
        return rewriter.template(f"s_procedure('{kind}', CAST(:1 AS VARCHAR), 'cast', $s_asked)", inner)
    new = casts.duck_cast_type(to)
    if isinstance(inner, exp.Column) and new.sql("duckdb") == "TEXT" and _is_array(inner):
        return rewriter.template("'{' || array_to_string(:1, ',') || '}'", inner)
    if new is not to:
        node.set("to", new)
    return None


def _is_array(column: exp.Column) -> bool:
    return column_types().get(column.name, "").endswith("[]")


_ID = "s_resolve('{}', CAST(:1 AS VARCHAR), 'cast', $s_asked)"


def _id_cast(rewriter: Rewriter, node: Any, kind: str) -> exp.Expression:
    inner = node.this
    is_named = isinstance(inner, exp.Literal | exp.Subquery) or casts.is_text(inner)
    if is_named or inner.find(exp.Parameter):  # a subquery gives names or ids, and digits are an id
        inner = rewriter.template(_ID.format(kind), inner)
    return rewriter.template(calls.NAMES_OF_IDS[kind], inner) if casts.wants_name(node) else inner


@handles(exp.CurrentTimestamp)
def _now(rewriter: Rewriter, node: Any) -> exp.Expression:
    rewriter.out.values.add("transaction_us")
    return rewriter.template("make_timestamptz($s_transaction_us)")


@handles(exp.Anonymous)
def call(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """A function: from ``calls``, or the same in DuckDB, or 42883."""
    name = function_name(node)
    assert name is not None
    if name in calls.TABLES and isinstance(node.parent, exp.Table):
        return None
    if name in calls.VALUES:
        return rewriter.value(*calls.VALUES[name])
    arguments = _arguments(node)
    if name == "version":
        from herdpy._version import __version__

        return exp.Literal.string(f"PostgreSQL 15.0 (HerdPy {__version__})")
    if name in calls.CONSTANTS:
        return rewriter.template(calls.CONSTANTS[name])
    if name in calls.OF_PATH:
        rewriter.out.values.add("path")
        return rewriter.template(calls.OF_PATH[name], *arguments)
    if name == "hashtext":
        if len(arguments) != 1 or not isinstance(arguments[0], exp.Literal):
            raise SqlError("0A000", "hashtext takes a literal")
        return exp.cast(exp.Literal.number(hashtext(str(arguments[0].this))), "INTEGER")
    if name == "format":
        return _format(rewriter, arguments)
    if name == "to_char":
        return to_char(rewriter, arguments)
    if name in calls.JSON:
        return exp.Anonymous(this=calls.JSON[name], expressions=arguments)
    if name in calls.ACTIONS:
        return _action(rewriter, name, arguments)
    rights = privilege_template(name, len(arguments))
    if rights is not None:
        return rewriter.template(rights, *arguments)
    if name == "generate_subscripts" and arguments[0].name in rewriter.vectors:
        return exp.Anonymous(this="unnest", expressions=[rewriter.template(calls.PLACES, arguments[0])])
    template = calls.CALLS.get(name)
    if template is not None:
        defaults = calls.DEFAULTS.get(name, ())
        wanted = max((int(n) for n in HOLE.findall(template)), default=0)
        missing = wanted - len(arguments)
        too_many = wanted and len(arguments) > calls.MOST.get(name, wanted)
        if missing > len(defaults) or too_many:
            raise undefined(f"{name}({', '.join('unknown' for _ in arguments)})")
        if missing > 0:
            arguments += [rewriter.template(text) for text in defaults[-missing:]]
        found = rewriter.template(template, *arguments)
        if name in calls.SETS:
            inside = isinstance(node.parent, exp.Table | exp.Lateral)
            return exp.Anonymous(this=calls.LISTED if inside else "unnest", expressions=[found])
        if name.startswith("to_reg") and name[6:] in calls.NAMES_OF_IDS and casts.wants_name(node):
            return rewriter.template(calls.NAMES_OF_IDS[name[6:]], found)
        return found
    if name == "all" and isinstance(node.parent, exp.EQ | exp.NEQ):
        return None
    if name in calls.NATIVE or name in {"unnest", "generate_series"}:
        if name in {"unnest", "generate_series"} and not isinstance(node.parent, exp.Table):
            inner = arguments[0] if name == "unnest" else node.copy()
            return exp.Anonymous(this="unnest", expressions=[inner])
        return None
    raise undefined(name)


_TRUTHS = ANSWERING | {"pg_cancel_backend", "pg_terminate_backend"}
_FORMATS = {
    "s": "coalesce(CAST(:1 AS VARCHAR), '')",
    "I": "s_quote_ident(CAST(:1 AS VARCHAR))",
    "L": "coalesce(s_quote_literal(:1), 'NULL')",
}


def _format(rewriter: Rewriter, arguments: list[exp.Expression]) -> exp.Expression:
    """format(): a literal pattern with %s, %I, %L and %% as a concatenation."""
    if not arguments or not isinstance(arguments[0], exp.Literal):
        raise SqlError("0A000", "format takes a literal pattern")
    rest = list(arguments[1:])
    whole: exp.Expression = exp.Literal.string("")
    for text, mark in re.findall(r"([^%]*)(%.?|\Z)", str(arguments[0].this), re.DOTALL):
        if mark == "%":
            raise SqlError("22023", "unterminated format() type specifier")
        kind = mark[1:]
        made: exp.Expression = exp.Literal.string(text + ("%" if kind == "%" else ""))
        whole = exp.DPipe(this=whole, expression=made)
        if kind in _FORMATS:
            if not rest:
                raise SqlError("22023", "too few arguments for format()")
            whole = exp.DPipe(this=whole, expression=rewriter.template(_FORMATS[kind], rest.pop(0)))
        elif kind not in ("", "%"):
            raise SqlError("22023", f'unrecognized format() type specifier "{kind}"')
    return exp.Paren(this=whole)


def _arguments(node: Any) -> list[exp.Expression]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    found = [
        node.args[key] for key in ("this", "expression") if isinstance(node.args.get(key), exp.Expression)
    ]
    return found + [e for e in node.args.get("expressions") or () if isinstance(e, exp.Expression)]


def _action(rewriter: Rewriter, name: str, arguments: list[exp.Expression]) -> exp.Expression:
    constants = [_constant(argument) for argument in arguments]
    if name == "current_setting" and any(isinstance(c, exp.Expression) for c in constants):
        return rewriter.template(
            '(SELECT s_l.l_value FROM "lookup.setting" AS s_l WHERE s_l.l_name = lower(:1))', *arguments
        )
    if name == "set_config" and len(constants) == 3 and isinstance(constants[0], exp.Expression):
        constants[0], name = _named_setting(arguments[0]), "set_config if there"
    if any(isinstance(c, exp.Expression) for c in constants):
        raise SqlError("0A000", f"{name} takes constants and parameters only")
    rewriter.out.actions.append(SessionAction(name, tuple(constants)))  # type: ignore[arg-type]
    type_ = "BOOLEAN" if name in _TRUTHS else "VARCHAR"
    return rewriter.template(f"CAST($a{len(rewriter.out.actions) - 1} AS {type_})")


def _named_setting(column: Any) -> str | exp.Expression:
    """The setting that a query finds by its name: ``... FROM pg_settings WHERE name = 'x'``."""
    select = column.parent_select
    where = select.args.get("where") if select is not None else None
    for test in where.find_all(exp.EQ) if where is not None else ():
        if test.this == column and isinstance(test.expression, exp.Literal):
            plain = test.parent is where or isinstance(test.parent, exp.And)
            if plain and test.expression.is_string and column.name.lower() == "name":
                return str(test.expression.this)
    return column  # type: ignore[no-any-return]


def _constant(node: exp.Expression) -> str | int | exp.Expression | None:
    """The text of a literal, the number of a parameter (an int), None for NULL, else the node."""
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Neg | exp.Paren):
        inner = _constant(node.this)
        if isinstance(node, exp.Paren):
            return inner
        return f"-{inner}" if isinstance(inner, str) and inner.isdigit() else node
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if isinstance(node, exp.Null):
        return None
    marks = re.findall(r"\$p(\d+)", node.sql("duckdb"))
    if len(marks) == 1 and isinstance(node, exp.Cast):
        return int(marks[0])
    if isinstance(node, exp.Cast):
        return _constant(node.this)
    return node


_OPERATORS: dict[str, tuple[type[exp.Expression], bool]] = {
    "~": (exp.RegexpLike, False),
    "~*": (exp.RegexpILike, False),
    "!~": (exp.RegexpLike, True),
    "!~*": (exp.RegexpILike, True),
    "~~": (exp.Like, False),
    "~~*": (exp.ILike, False),
    "!~~": (exp.Like, True),
    "!~~*": (exp.ILike, True),
    "=": (exp.EQ, False),
    "<>": (exp.NEQ, False),
    "<": (exp.LT, False),
    "<=": (exp.LTE, False),
    ">": (exp.GT, False),
    ">=": (exp.GTE, False),
    "||": (exp.DPipe, False),
    "+": (exp.Add, False),
    "-": (exp.Sub, False),
}


@handles(exp.Dot)
def _dot(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    if node.find_ancestor(exp.DataType) is not None:
        return None  # a type's name, which the cast sees to
    if isinstance(node.this, exp.Identifier):
        if node.this.name.lower() not in (CATALOG, INFORMATION):
            raise SqlError("3F000", f'schema "{node.this.name}" does not exist')
        return node.expression  # type: ignore[no-any-return]
    return None


@handles(exp.Column)
def _column(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    if function_name(node) is not None:
        return call(rewriter, node)
    if node.args.get("db"):
        node.set("db", None)
    own = system_column(rewriter, node)
    if own is not None:
        return own
    if node.name in VECTORS and _is_output(node):
        return rewriter.template("array_to_string(:1, ' ')", node)
    return None


def _is_output(node: exp.Expression) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return casts.target_name(parent.args["to"]) in (None, "name", "text") and not parent.args[
            "to"
        ].args.get("nested")
    while isinstance(parent, exp.Alias):
        parent = parent.parent
    return isinstance(parent, exp.Select) and parent.parent_select is None


@handles(exp.Collate)
def _collate(rewriter: Rewriter, node: Any) -> exp.Expression:
    return node.this  # type: ignore[no-any-return]


@handles(exp.Operator)
def _operator(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    symbol = str(node.args["operator"]).rpartition("pg_catalog.")[2].strip()
    found = _OPERATORS.get(symbol)
    if found is None:
        raise SqlError("42883", f"operator does not exist: {symbol}")
    cls, negated = found
    new = cls(this=node.this, expression=node.expression)
    if isinstance(new, exp.Like | exp.ILike):
        new.set("negate", negated)
        return like(rewriter, new)
    return exp.Not(this=exp.Paren(this=new)) if negated else new


@handles(exp.Bracket)
def _bracket(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """Vectors count from 0. sqlglot adds 1 to a literal index for DuckDB unless it is told not to."""
    inner = node.this
    node.set("offset", 1)
    if not isinstance(inner, exp.Column) or inner.name.lower() not in rewriter.vectors:
        return None
    index = node.expressions[0]
    return rewriter.template("list_extract(:1, (:2) + 1)", inner, index)


@handles(exp.EQ, exp.NEQ)
def _equality(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    every = node.expression
    if isinstance(every, exp.Anonymous) and str(every.this).lower() == "all":
        test = "NOT list_contains(:1, :2)" if isinstance(node, exp.NEQ) else "list_has_all([:2], :1)"
        return rewriter.template(test, every.expressions[0], node.this)
    for side, other in (("this", node.expression), ("expression", node.this)):
        elements = casts.array_literal(node.args[side])
        if elements is not None and isinstance(other, exp.Column):
            type_ = column_types().get(other.name, "text")
            if type_.endswith("[]"):
                node.set(side, list_of(elements, number=type_ in ("oid[]", "int2[]")))
    return None


@handles(exp.Coalesce)
def _coalesce(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    for other in node.expressions:
        if casts.array_literal(other) == [] and not casts.is_text(node.this):
            other.replace(exp.Array(expressions=[]))
    return None
