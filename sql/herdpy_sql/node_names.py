"""PostgreSQL's names for the nodes of a syntax tree and for their clauses, as refusals write them.

The parser's classes are no words of SQL: nobody can look up "MatchAgainst is not supported". The tables have
what PostgreSQL's syntax can make and HerdPy does not read. Of the rest the statement's words are quoted.
"""

from __future__ import annotations

import re

from sqlglot import ErrorLevel
from sqlglot import expressions as exp

from herdpy_sql.absent import absent_function, absent_operator
from herdpy_sql.errors import SqlError

NODES: dict[type[exp.Expr], str] = {
    exp.ByteString: "bit strings (B'...')",
    exp.National: "national character strings (N'...')",
    exp.CurrentTime: "type time with time zone (current_time)",
    exp.ExcludeColumnConstraint: "EXCLUDE constraint",
    exp.WithOperator: "EXCLUDE constraint",
    exp.InheritsProperty: "table inheritance (INHERITS)",
    exp.TableSpaceProperty: "TABLESPACE of a table",
    exp.UsingProperty: "table access method (USING)",
    exp.GlobalProperty: "GLOBAL TEMPORARY",
    exp.ExecuteAsProperty: "CREATE TABLE ... AS EXECUTE",
    exp.LikeProperty: "LIKE",
    exp.PartitionedOfProperty: "PARTITION OF",
    exp.RecursiveWithSearch: "SEARCH and CYCLE of recursive queries",
    exp.Variadic: "VARIADIC",
    exp.Kwarg: "named notation of arguments (name => value)",
    exp.PropertyEQ: "named notation of arguments (name := value)",
    exp.Tuple: "a row as a value",
    exp.XMLElement: "XML (function xmlelement)",
    exp.XMLTable: "XML (function xmltable)",
    exp.XMLNamespace: "XML (XMLNAMESPACES)",
    exp.JSON: "SQL/JSON (IS JSON)",
    exp.JSONObject: "SQL/JSON (function json_object)",
    exp.SimilarTo: "SIMILAR TO",
    exp.Escape: "ESCAPE",
    exp.Collate: "COLLATE",
    exp.Lock: "a locking clause",
    exp.Into: "SELECT INTO",
    exp.TableSample: "TABLESAMPLE",
    exp.Lateral: "LATERAL",
    exp.Limit: "LIMIT within a call",
    exp.Slice: "array slice",
    exp.WithinGroup: "WITHIN GROUP",
    exp.Filter: "FILTER",
    exp.Window: "OVER",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS",
    exp.Grant: "GRANT",
    exp.Revoke: "REVOKE",
    exp.Comment: "COMMENT",
    exp.Drop: "DROP",
    exp.Alter: "ALTER",
    exp.TruncateTable: "TRUNCATE",
    exp.Select: "SELECT",
    exp.Insert: "INSERT",
    exp.Update: "UPDATE",
    exp.Delete: "DELETE",
    exp.Merge: "MERGE",
    exp.Create: "CREATE",
    exp.Values: "VALUES",
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
    exp.Subquery: "a subquery",
    exp.Star: "*",
    exp.Alias: "a name given with AS",
    exp.Ordered: "ORDER BY within a call",
    exp.Order: "ORDER BY within a call",
    exp.Distinct: "DISTINCT within a call",
}
"""What a refusal calls the nodes of a class."""

OPERATORS: dict[type[exp.Expr], str] = {
    exp.MatchAgainst: "@@",
    exp.JSONBPathExists: "@?",
    exp.Adjacent: "-|-",
    exp.ExtendsLeft: "&<",
}
"""The operators that have classes of their own, and that HerdPy has not."""

CLAUSES: dict[tuple[type[exp.Expr], str], str] = {
    (exp.UniqueColumnConstraint, "nulls"): "UNIQUE NULLS NOT DISTINCT",
    (exp.IndexParameters, "tablespace"): "TABLESPACE of an index",
    (exp.IndexParameters, "with_storage"): "storage parameters of an index",
    (exp.IndexParameters, "on"): "ON of an index",
    (exp.With, "search"): "SEARCH and CYCLE of recursive queries",
    (exp.WithOperator, "op"): "EXCLUDE constraint",
    (exp.ExcludeColumnConstraint, "params"): "EXCLUDE constraint",
    (exp.XMLTable, "passing"): "XML (function xmltable)",
    (exp.XMLTable, "columns"): "XML (function xmltable)",
    (exp.XMLTable, "namespaces"): "XML (function xmltable)",
    (exp.XMLTable, "by_ref"): "XML (function xmltable)",
    (exp.XMLElement, "evalname"): "XML (function xmlelement)",
    (exp.Interval, "fraction_in_string"): "type interval with a precision",
    (exp.Create, "clone"): "CLONE",
    (exp.Select, "kind"): "SELECT AS",
    (exp.Select, "hint"): "hints",
    (exp.Table, "only"): "ONLY",
    (exp.Table, "version"): "FOR SYSTEM_TIME",
    (exp.Table, "hints"): "WITH after a table's name",
    (exp.Lateral, "view"): "LATERAL VIEW",
    (exp.Limit, "limit_options"): "PERCENT of LIMIT",
    (exp.Star, "except_"): "EXCEPT after *",
    (exp.Star, "replace"): "REPLACE after *",
    (exp.Star, "rename"): "RENAME after *",
    (exp.Cast, "format"): "CAST with FORMAT",
    (exp.Merge, "returning"): "RETURNING of MERGE",
    (exp.Insert, "overwrite"): "INSERT OVERWRITE",
    (exp.Insert, "alternative"): "INSERT OR",
    (exp.Update, "order"): "ORDER BY of UPDATE",
    (exp.Update, "limit"): "LIMIT of UPDATE",
    (exp.Delete, "order"): "ORDER BY of DELETE",
    (exp.Delete, "limit"): "LIMIT of DELETE",
    (exp.Union, "by_name"): "UNION BY NAME",
    (exp.Chr, "charset"): "USING of chr",
    (exp.Ceil, "to"): "TO of ceil",
    (exp.Floor, "to"): "TO of floor",
}
"""What a refusal calls an argument of a class's nodes."""

_CALLED: dict[type[exp.Expr], str] = {
    exp.DecodeCase: "decode",
    exp.ExplodingGenerateSeries: "generate_series",
    exp.Explode: "unnest",
    exp.GroupConcat: "string_agg",
    exp.StrPosition: "strpos",
    exp.Rand: "random",
    exp.Uuid: "gen_random_uuid",
    exp.JSONBObjectAgg: "jsonb_object_agg",
    exp.JSONObjectAgg: "json_object_agg",
    exp.JSONArrayAgg: "json_agg",
    exp.Getbit: "get_bit",
    exp.Unicode: "ascii",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
}
"""The functions whose classes have names of their own."""
_LONGEST = 40


def quoted(words: str) -> str:
    """Words of a statement as a refusal quotes them: on one line, and not without end."""
    plain = re.sub(r"\s+", " ", words).strip()
    return f'"{plain[:_LONGEST]}..."' if len(plain) > _LONGEST else f'"{plain}"'


def written(node: exp.Expr, text: str) -> str:
    """The part of a statement's text that a node was read from, as far as its names know their places."""
    places = [one.meta for one in node.walk() if "start" in one.meta]
    if not places or not text:
        return ""
    return text[min(one["start"] for one in places) : max(one["end"] for one in places) + 1]


def refusal(node: exp.Expr, text: str = "") -> SqlError:
    """0A000 for a node that is not read; 42883 for a function that PostgreSQL has not either.

    Args:
        node: what is refused.
        text: the statement that it was read from, where it is at hand.
    """
    if type(node) in OPERATORS:
        found = absent_operator(OPERATORS[type(node)])
        assert found is not None
        return found
    if type(node) in NODES:
        return SqlError("0A000", f"{NODES[type(node)]} is not supported")
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary | exp.Predicate):
        name = function_word(node)
        return absent_function(name) or SqlError("42883", f"function {name} does not exist")
    words = written(node, text) or _generated(node)
    return SqlError("0A000", f"{quoted(words) if words else 'this syntax'} is not supported")


def clause_refusal(node: exp.Expr, argument: str, text: str = "") -> SqlError:
    """0A000 for an argument of a node that is not read; the arguments are those of :func:`refusal`."""
    named = CLAUSES.get((type(node), argument))
    if named is not None:
        return SqlError("0A000", f"{named} is not supported")
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary | exp.Predicate):
        name = function_word(node)
        return absent_function(name) or SqlError("0A000", f"an argument of function {name} is not supported")
    word = argument.replace("_", " ").strip().upper()
    if not text or re.search(rf"\b{word}\b", text, re.IGNORECASE):
        return SqlError("0A000", f"{word} is not supported here")
    value = node.args.get(argument)
    words = written(value, text) if isinstance(value, exp.Expr) else ""
    return SqlError("0A000", f"{quoted(words) if words else 'this syntax'} is not supported here")


def function_word(node: exp.Expr) -> str:
    """A function's name as it is called."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if type(node) in _CALLED:
        return _CALLED[type(node)]
    if not isinstance(node, exp.Func):
        return _generated(node)
    return next((one.lower() for one in node.sql_names() if "_" not in one[1:2]), "").replace('"', "")


def _generated(node: exp.Expr) -> str:
    """A node as SQL; "" of one that has none."""
    try:
        return str(node.sql("postgres", unsupported_level=ErrorLevel.IGNORE))
    except (AttributeError, TypeError, ValueError, LookupError, NameError):
        return ""  # a node that lacks what its class needs
