"""A query over the catalog as DuckDB text: relations, operators, functions and parameters replaced.

DuckDB follows PostgreSQL in names, clauses and subqueries; what differs is changed in the tree, from the
leaves up, by a handler for each class of node. Functions and table functions that are not known here are
refused (42883), so nothing of DuckDB's own can be called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from herdpy_sql.columnar.query import Scan
from herdpy_sql.errors import SqlError
from herdpy_sql.system import calls, casts
from herdpy_sql.system.relation import CATALOG, INFORMATION, Relation, column_types, find_relation
from herdpy_sql.system.types import known_procedures
from herdpy_sql.types import BIGINT, BOOLEAN, INTEGER, SMALLINT, TEXT, TIMESTAMPTZ, UNKNOWN, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog

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
_VECTORS = frozenset({"indkey", "indclass", "indoption", "indcollation", "proargtypes", "conkey_vector"})
_TYPES = {
    "oid": BIGINT, "xid": BIGINT, "int8": BIGINT, "int4": INTEGER, "int2": SMALLINT, "bool": BOOLEAN,
    "timestamptz": TIMESTAMPTZ,
}  # fmt: skip
# Functions that sqlglot has classes for; the others come as Anonymous and are looked up by name.
_CLASSES = frozenset(
    [
        "Collate",
        "And",
        "Or",
        "Xor",
        "Not",
        "Case",
        "If",
        "Coalesce",
        "Nullif",
        "Cast",
        "Exists",
        "Array",
        "Any",
        "All",
        "Count",
        "Sum",
        "Min",
        "Max",
        "Avg",
        "ArrayAgg",
        "GroupConcat",
        "Lower",
        "Upper",
        "Length",
        "Substring",
        "Trim",
        "Left",
        "Right",
        "Replace",
        "Translate",
        "Concat",
        "ConcatWs",
        "StrPosition",
        "SplitPart",
        "RegexpReplace",
        "RegexpLike",
        "RegexpILike",
        "Greatest",
        "Least",
        "Abs",
        "Round",
        "Floor",
        "Ceil",
        "RowNumber",
        "Rank",
        "DenseRank",
        "Lag",
        "Lead",
        "FirstValue",
        "LastValue",
        "Extract",
        "CurrentTimestamp",
        "CurrentDate",
        "LogicalAnd",
        "LogicalOr",
        "MD5",
        "Repeat",
        "Reverse",
        "StartsWith",
        "Unnest",
        "Explode",
        "GenerateSeries",
        "ExplodingGenerateSeries",
        "TimestampTrunc",
        "DateTrunc",
        "Initcap",
        "Ascii",
        "Unicode",
        "Chr",
        "Pad",
        "Mod",
        "Sign",
        "ArrayToString",
        "StringToArray",
        "ArrayLength",
        "ArraySize",
        "ArrayPosition",
        "ArrayAppend",
        "ArrayConcat",
        "ArrayRemove",
        "Anonymous",
        "CurrentUser",
        "SessionUser",
        "CurrentSchema",
        "CurrentSchemas",
        "CurrentCatalog",
        "CurrentDatabase",
        "CurrentRole",
        "CurrentVersion",
        "Interval",
        "Format",
        "ParameterizedAgg",
        "Overlay",
    ]
)
_NAMED = {
    "CurrentUser": "current_user", "SessionUser": "session_user", "CurrentSchema": "current_schema",
    "CurrentSchemas": "current_schemas", "CurrentCatalog": "current_catalog", "CurrentRole": "current_role",
    "CurrentDatabase": "current_database", "CurrentVersion": "version",
    "ArrayToString": "array_to_string", "ArrayLength": "array_length", "ArraySize": "array_length",
    "ArrayPosition": "array_position", "ArrayAppend": "array_append", "ArrayConcat": "array_cat",
    "ArrayRemove": "array_remove", "Format": "format",
}  # fmt: skip
_KEYWORDS = frozenset({"user", "current_role", "current_catalog", "session_user", "current_user"})
_HOLE = re.compile(r":(\d)")


@dataclass(frozen=True, slots=True)
class Action:
    """A function carried out when the query begins; its arguments are texts or numbers of parameters."""

    name: str
    arguments: tuple[str | int | None, ...]


@dataclass
class Rewritten:
    """What a query needs to be run: filled while its tree is rewritten.

    Attributes:
        relations: system relations by the name that the text has for them.
        lookups: names of relations that only our functions read.
        scans: users' tables that it reads too.
        params: the types of the statement's parameters by number.
        values: attributes of the session's state that the text has parameters for.
        actions: what is to be done, each giving the value of a parameter of the text.
    """

    catalog: Catalog
    relations: dict[str, Relation] = field(default_factory=dict)
    lookups: set[str] = field(default_factory=set)
    scans: dict[str, Scan] = field(default_factory=dict)
    params: dict[int, SqlType] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    actions: list[Action] = field(default_factory=list)


def function_name(node: Any) -> str | None:
    """PostgreSQL's name of a call, or None for what is no call (or one that needs no care)."""
    named = _NAMED.get(type(node).__name__)
    if named is not None:
        return named
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if isinstance(node, exp.Column) and not node.args.get("table") and isinstance(node.this, exp.Identifier):
        name = str(node.this.this).lower()
        if name in _KEYWORDS and not node.this.args.get("quoted"):
            return name
    return None


def concerns(tree: exp.Expression, catalog: Catalog) -> bool:
    """Whether a query is one over the catalog, or about the server."""
    for node in tree.walk():
        if isinstance(node, exp.Table):
            if _system_relation(node, catalog) is not None:
                return True
        elif isinstance(node, exp.ObjectIdentifier | exp.Operator):
            return True
        elif isinstance(node, exp.Dot):
            if isinstance(node.this, exp.Identifier) and node.this.name.lower() in (CATALOG, INFORMATION):
                return True
        elif isinstance(node, exp.Cast):
            if casts.target_name(node.args["to"]) is not None:
                return True
        else:
            name = function_name(node)
            if name is not None and name in calls.SPECIAL and name not in calls.COMMON:
                return True
    return False


def _system_relation(node: exp.Table, catalog: Catalog) -> Relation | None:
    if not isinstance(node.this, exp.Identifier):
        return None
    schema = node.args.get("db")
    name = _folded(node.this)
    if schema is not None:
        return find_relation(_folded(schema), name)
    return None if name in catalog.by_name else find_relation(None, name)


def _folded(node: exp.Expression) -> str:
    if isinstance(node, exp.Identifier) and node.args.get("quoted"):
        return str(node.this)
    return node.name.lower()


Handler = Callable[["Rewriter", Any], "exp.Expression | None"]
HANDLERS: dict[type[Any], Handler] = {}


def handles(*classes: type[exp.Expression]) -> Callable[[Handler], Handler]:
    """Register what rewrites nodes of these classes: gives the replacement, or None to leave it."""

    def register(handler: Handler) -> Handler:
        for cls in classes:
            HANDLERS[cls] = handler
        return handler

    return register


class Rewriter:
    """Rewrites one tree."""

    def __init__(self, catalog: Catalog, param_types: Sequence[SqlType]) -> None:
        self.catalog = catalog
        self.out = Rewritten(catalog)
        self.out.params.update(dict(enumerate(param_types, 1)))
        self.ctes: set[str] = set()
        self.vectors: set[str] = set()

    def rewrite(self, tree: exp.Expression) -> str:
        """The DuckDB text of a tree, which is changed. SqlError."""
        self.ctes = {_folded(cte.args["alias"].this) for cte in tree.find_all(exp.CTE)}
        self.vectors = _VECTORS | {
            alias.alias.lower()
            for alias in tree.find_all(exp.Alias)
            if isinstance(alias.this, exp.Column) and alias.this.name in _VECTORS
        }
        holder = exp.Paren(this=tree)
        for node in reversed(list(tree.bfs())):
            if isinstance(node, exp.Func) and type(node).__name__ not in _CLASSES:
                raise undefined(node.sql_name().lower())
            handler = HANDLERS.get(type(node))
            if handler is None and function_name(node) is not None:
                handler = call
            if handler is not None:
                new = handler(self, node)
                if new is not None and new is not node:
                    node.replace(new)
        final = holder.this
        for identifier in final.find_all(exp.Identifier):
            if not identifier.args.get("quoted"):
                identifier.set("this", str(identifier.this).lower())
        return str(final.sql("duckdb", identify=True))

    def template(self, text: str, *arguments: exp.Expression) -> exp.Expression:
        """DuckDB text as a tree, with ``:1`` and so on replaced."""
        for lookup in re.findall(r'"lookup\.(\w+)"', text):
            self.out.lookups.add(lookup)
        for name in re.findall(r'"pg_catalog\.(\w+)"', text):
            relation = find_relation(CATALOG, name)
            assert relation is not None
            self.out.relations[relation.label] = relation
        marked = _HOLE.sub(r"__hole\1", text)
        holder = exp.Paren(this=sqlglot.parse_one(marked, dialect="duckdb"))
        for column in list(holder.find_all(exp.Column)):
            if column.name.startswith("__hole"):
                column.replace(arguments[int(column.name[6:]) - 1].copy())
        found: exp.Expression = holder.this
        return exp.Paren(this=found) if isinstance(found, exp.Case | exp.Binary) else found

    def value(self, attribute: str, duck: str) -> exp.Expression:
        """A value of the session's state."""
        if not attribute:
            return self.template(f"CAST(NULL AS {duck})")
        self.out.values.add(attribute)
        if duck == "TIMESTAMPTZ":
            return self.template(f"make_timestamptz($s_{attribute})")
        return self.template(f"CAST($s_{attribute} AS {duck})")

    def parameter(self, number: int, wanted: SqlType) -> exp.Expression:
        """A parameter of the statement; the first place that says so decides its type."""
        known = self.out.params.get(number, UNKNOWN)
        if known.base is Base.UNKNOWN:
            known = self.out.params[number] = wanted
        self.out.used.add(number)
        from herdpy_sql.columnar.binder import Binder

        binder = Binder(self.catalog, params={number: known})
        text = binder.param(number, known).sql.replace(f"${number}", f"$p{number}")
        found: Any = sqlglot.parse_one(text, dialect="duckdb")
        return found  # type: ignore[no-any-return]


def undefined(name: str) -> SqlError:
    """42883."""
    return SqlError("42883", f"function {name} does not exist")


# ---------------------------------------------------------------------------- FROM


@handles(exp.Table)
def _table(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    if not isinstance(node.this, exp.Identifier):
        return _table_function(rewriter, node)
    name = _folded(node.this)
    schema = _folded(node.args["db"]) if node.args.get("db") else None
    if node.args.get("catalog"):
        node.set("catalog", None)
    if schema is None and name in rewriter.ctes:
        return None
    relation = _system_relation(node, rewriter.catalog)
    if relation is not None:
        rewriter.out.relations[relation.label] = relation
        label = relation.label
    else:
        label = _user_table(rewriter, schema, name)
    node.set("db", None)
    node.set("this", exp.to_identifier(label, quoted=True))
    if node.args.get("alias") is None:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    return None


def _user_table(rewriter: Rewriter, schema: str | None, name: str) -> str:
    table = rewriter.catalog.by_name.get(name) if schema in (None, "public") else None
    if table is None:
        shown = f"{schema}.{name}" if schema else name
        raise SqlError("42P01", f'relation "{shown}" does not exist', table=name)
    label = f"public.{name}"
    rewriter.out.scans[label] = Scan(label, table, table.visible)
    return label


def _table_function(rewriter: Rewriter, node: Any) -> exp.Expression:
    """A function in FROM: the rows of the list that it gives; its only column has the alias's name."""
    if node.args.get("ordinality"):
        raise SqlError("0A000", "WITH ORDINALITY is not supported in queries over the catalog")
    inner = node.this
    relation = calls.TABLES.get(function_name(inner) or "")
    if relation is not None:
        given = node.args.get("alias") or exp.TableAlias(
            this=exp.to_identifier(function_name(inner), quoted=True)
        )
        return exp.Subquery(this=rewriter.template(relation), alias=given.copy())
    if isinstance(inner, exp.Unnest | exp.Explode):
        inner = inner.this if isinstance(inner, exp.Explode) else inner.expressions[0]
    elif not _is_set(inner):
        raise undefined(function_name(inner) or inner.sql_name().lower())
    elif isinstance(inner, exp.Anonymous) and str(inner.this) == "unnest":
        inner = inner.expressions[0]
    given = node.args.get("alias")
    name = _folded(given.this) if given is not None and given.this is not None else "unnest"
    columns = given.args.get("columns") if given is not None else None
    label = _folded(columns[0]) if columns else name
    body = rewriter.template("SELECT unnest(:1)", _as_list(inner))
    alias = exp.TableAlias(
        this=exp.to_identifier(name, quoted=True), columns=[exp.to_identifier(label, quoted=True)]
    )
    return exp.Subquery(this=body, alias=alias)


def _is_set(node: exp.Expression) -> bool:
    if isinstance(node, exp.GenerateSeries | exp.ExplodingGenerateSeries):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this) in {"unnest", "generate_series"}


def _as_list(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.GenerateSeries | exp.ExplodingGenerateSeries):
        parts = [node.args[key] for key in ("start", "end", "step") if node.args.get(key) is not None]
        return exp.Anonymous(this="generate_series", expressions=parts)
    return node


@handles(exp.Unnest, exp.Explode, exp.GenerateSeries, exp.ExplodingGenerateSeries)
def _set_function(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    if isinstance(node.parent, exp.Table):
        return None
    if isinstance(node, exp.Unnest) and isinstance(node.parent, exp.From | exp.Join | exp.Lateral):
        holder = exp.Table(this=node.copy(), alias=node.args.get("alias"))
        return _table_function(rewriter, holder)
    inner = node
    if isinstance(node, exp.Unnest | exp.Explode):
        inner = node.this if isinstance(node, exp.Explode) else node.expressions[0]
    return exp.Anonymous(this="unnest", expressions=[_as_list(inner)])


# ---------------------------------------------------------------------------- names


@handles(exp.Dot)
def _dot(rewriter: Rewriter, node: Any) -> exp.Expression | None:
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
    if node.name.lower() == "tableoid":  # asked for to find comments, of which there are none
        return exp.cast(exp.Literal.number(0), "BIGINT")
    if node.name in _VECTORS and _is_output(node):
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
def _operator(rewriter: Rewriter, node: Any) -> exp.Expression:
    symbol = str(node.args["operator"]).rpartition("pg_catalog.")[2].strip()
    found = _OPERATORS.get(symbol)
    if found is None:
        raise SqlError("42883", f"operator does not exist: {symbol}")
    cls, negated = found
    new = cls(this=node.this, expression=node.expression)
    return exp.Not(this=exp.Paren(this=new)) if negated else new


@handles(exp.Bracket)
def _bracket(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """Vectors count from 0; sqlglot takes 1 off an index that is a literal, as for arrays."""
    inner = node.this
    if not isinstance(inner, exp.Column) or inner.name.lower() not in rewriter.vectors:
        return None
    index = node.expressions[0]
    number = index.this if isinstance(index, exp.Neg) else index
    shift = 2 if isinstance(number, exp.Literal) else 1
    return rewriter.template(f"list_extract(:1, (:2) + {shift})", inner, index)


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
                node.set(side, _list(elements, number=type_ in ("oid[]", "int2[]")))
    return None


@handles(exp.Coalesce)
def _coalesce(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    for other in node.expressions:
        if casts.array_literal(other) == [] and not casts.is_text(node.this):
            other.replace(exp.Array(expressions=[]))
    return None


def _list(elements: list[str], *, number: bool) -> exp.Expression:
    made = [exp.Literal.number(e) if number else exp.Literal.string(e) for e in elements]
    return exp.Array(expressions=made)


@handles(exp.Any)
def _any(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    elements = casts.array_literal(inner)
    if elements is not None:
        inner = _list(elements, number=all(e.lstrip("-").isdigit() for e in elements))
    elif isinstance(inner, exp.Cast) and inner.find(exp.Parameter) and inner.args["to"].args.get("nested"):
        inner = rewriter.template("s_array(:1)", inner.this)
    elif isinstance(inner, exp.Parameter | exp.Placeholder) or "$p" in inner.sql("duckdb"):
        inner = rewriter.template("s_array(:1)", inner)
        compared = node.parent
        if isinstance(compared, exp.Binary):
            compared.set("this", exp.cast(compared.this.copy(), "VARCHAR"))
    if isinstance(inner, exp.Query):
        return None
    node.set("this", exp.Paren(this=inner))
    return None


# ---------------------------------------------------------------------------- values


@handles(exp.Parameter)
def _parameter(rewriter: Rewriter, node: Any) -> exp.Expression:
    number = int(node.this.this if isinstance(node.this, exp.Expression) else node.this)
    return rewriter.parameter(number, _wanted(node))


def _wanted(node: exp.Expression) -> SqlType:
    """The type that a parameter's place asks for."""
    parent: Any = node.parent
    while isinstance(parent, exp.Paren):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Limit | exp.Offset):
        return BIGINT
    if isinstance(parent, exp.Cast):
        return _TYPES.get(casts.target_name(parent.args["to"]) or "", _standard(parent.args["to"]))
    if isinstance(parent, exp.Binary | exp.In):
        other = parent.this if parent.this is not node else parent.args.get("expression")
        if isinstance(other, exp.Column):
            return _TYPES.get(column_types().get(other.name, "text"), TEXT)
    return TEXT


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
    if elements is not None and isinstance(to, exp.DataType) and to.args.get("nested"):
        node.set("this", _list(elements, number=False))
    if isinstance(inner, exp.Literal) and casts.target_name(to) in ("regproc", "regprocedure"):
        name = str(inner.this).removeprefix("pg_catalog.")
        if name.partition("(")[0] not in known_procedures():
            raise undefined(f'"{name}"')
        node.set("this", exp.Literal.string(name))
    new = casts.duck_cast_type(to)
    if isinstance(inner, exp.Column) and new.sql("duckdb") == "TEXT" and _is_array(inner):
        return rewriter.template("'{' || array_to_string(:1, ',') || '}'", inner)
    if new is not to:
        node.set("to", new)
    return None


def _is_array(column: exp.Column) -> bool:
    return column_types().get(column.name, "").endswith("[]")


_NAMES = {
    "class": 'coalesce((SELECT s_l.l_name FROM "lookup.class" AS s_l WHERE s_l.l_oid = :1), '
    "CASE WHEN :1 = 0 THEN '-' ELSE CAST(:1 AS VARCHAR) END)",
    "type": "s_format_type(CAST(:1 AS BIGINT), -1)",
    "namespace": 'coalesce((SELECT s_l.l_name FROM "lookup.namespace" AS s_l WHERE s_l.l_oid = :1), '
    "CAST(:1 AS VARCHAR))",
    "role": 'coalesce((SELECT s_l.l_name FROM "lookup.role" AS s_l WHERE s_l.l_oid = :1), '
    "CAST(:1 AS VARCHAR))",
}
_IDS = {
    "class": '(SELECT s_l.l_oid FROM "lookup.name" AS s_l WHERE s_l.l_name = :1)',
    "type": "s_type_oid(CAST(:1 AS VARCHAR))",
    "namespace": '(SELECT s_l.l_oid FROM "lookup.namespace" AS s_l WHERE s_l.l_name = :1)',
    "role": '(SELECT s_l.l_oid FROM "lookup.role" AS s_l WHERE s_l.l_name = :1)',
}
_UNKNOWN = {
    "class": ("42P01", 'relation "{}" does not exist'),
    "type": ("42704", 'type "{}" does not exist'),
    "namespace": ("3F000", 'schema "{}" does not exist'),
    "role": ("42704", 'role "{}" does not exist'),
}


def _id_cast(rewriter: Rewriter, node: Any, kind: str) -> exp.Expression:
    inner = node.this
    literal = isinstance(inner, exp.Literal)
    if literal and str(inner.this).isdigit():
        found: exp.Expression = exp.cast(exp.Literal.number(str(inner.this)), "BIGINT")
    elif literal or casts.is_text(inner) or inner.find(exp.Parameter):
        text = str(inner.this) if literal else None
        found = rewriter.template(_IDS[kind], inner)
        if text is not None:  # a name that is not there is an error, when the query is run
            state, message = _UNKNOWN[kind]
            problem = exp.Literal.string(f"SQLSTATE {state}: {message.format(text)}")
            found = rewriter.template("coalesce(:1, CAST(error(:2) AS BIGINT))", found, problem)
    else:
        found = inner
    return rewriter.template(_NAMES[kind], found) if casts.wants_name(node) else found


# ---------------------------------------------------------------------------- functions


@handles(exp.CurrentTimestamp)
def _now(rewriter: Rewriter, node: Any) -> exp.Expression:
    rewriter.out.values.add("transaction_us")
    return rewriter.template("make_timestamptz($s_transaction_us)")


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
    if name == "current_schemas":
        return rewriter.template("CASE WHEN :1 THEN ['pg_catalog', 'public'] ELSE ['public'] END", *arguments)
    if name == "format":
        return _format(rewriter, arguments)
    if name in calls.ACTIONS:
        return _action(rewriter, name, arguments)
    template = calls.CALLS.get(name)
    if template is not None:
        defaults = calls.DEFAULTS.get(name, ())
        wanted = max((int(n) for n in _HOLE.findall(template)), default=0)
        missing = wanted - len(arguments)
        if missing > len(defaults):
            raise undefined(f"{name}({', '.join('unknown' for _ in arguments)})")
        if missing > 0:
            arguments += [rewriter.template(text) for text in defaults[-missing:]]
        found = rewriter.template(template, *arguments)
        if name in calls.SETS and not isinstance(node.parent, exp.Table):
            return exp.Anonymous(this="unnest", expressions=[found])
        if name.startswith("to_reg") and name[6:] in _NAMES and casts.wants_name(node):
            return rewriter.template(_NAMES[name[6:]], found)
        return found
    if name == "all" and isinstance(node.parent, exp.EQ | exp.NEQ):
        return None
    if name in calls.NATIVE or name in {"unnest", "generate_series"}:
        if name in {"unnest", "generate_series"} and not isinstance(node.parent, exp.Table):
            inner = arguments[0] if name == "unnest" else node.copy()
            return exp.Anonymous(this="unnest", expressions=[inner])
        return None
    raise undefined(name)


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
    for text, kind in re.findall(r"([^%]*)(?:%(.)|\Z)", str(arguments[0].this)):
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
    if any(isinstance(c, exp.Expression) for c in constants):
        raise SqlError("0A000", f"{name} takes constants and parameters only")
    rewriter.out.actions.append(Action(name, tuple(constants)))  # type: ignore[arg-type]
    types = {"pg_cancel_backend": "BOOLEAN", "pg_terminate_backend": "BOOLEAN"}
    return rewriter.template(f"CAST($a{len(rewriter.out.actions) - 1} AS {types.get(name, 'VARCHAR')})")


def _constant(node: exp.Expression) -> str | int | exp.Expression | None:
    """The text of a literal, the number of a parameter (an int), None for NULL, else the node."""
    if isinstance(node, exp.Literal):
        return str(node.this)
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
