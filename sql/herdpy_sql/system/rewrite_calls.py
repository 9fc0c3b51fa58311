"""Functions in queries over the catalog, as ``calls`` says; and what is done when the query begins."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from herdpy_sql.errors import SqlError
from herdpy_sql.system import calls, casts
from herdpy_sql.system.advisory import ANSWERING, hashtext
from herdpy_sql.system.calls_rights import privilege_template
from herdpy_sql.system.rewrite_texts import to_char
from herdpy_sql.system.rewriter import HOLE, Rewriter, SessionAction, function_name, handles, undefined


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
