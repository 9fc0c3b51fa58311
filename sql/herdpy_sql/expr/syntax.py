"""What sqlglot's nodes say, as both engines read them: names, calls and their arguments, subscripts.

A call or an operator gets the name that the library has for it, and its arguments in the library's order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.library.arrays import FROM_FIRST, TO_LAST
from herdpy_sql.node_names import function_word
from herdpy_sql.values.arrays import split_array

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES: dict[type, str] = {
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentRole: "current_role",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentDatabase: "current_database",
    exp.CurrentSchema: "current_schema",
    exp.CurrentSchemas: "current_schemas",
    exp.CurrentVersion: "version",
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>",
    exp.JSONBContainsTopKey: "?",
    exp.JSONBContainsAnyTopKeys: "?|",
    exp.JSONBContainsAllTopKeys: "?&",
    exp.JSONBDeleteAtPath: "#-",
    exp.Distance: "<->",
    exp.DistanceNd: "<#>",
    exp.Adjacent: "<+>",
    exp.ExtendsLeft: "<=>",
    exp.ExtendsRight: "<<=",
    exp.Glob: ">>=",
    exp.CosineDistance: "cosine_distance",
    exp.ArraySize: "array_length",
    exp.ArrayAppend: "array_append",
    exp.ArrayPrepend: "array_prepend",
    exp.ArrayConcat: "array_cat",
    exp.ArrayPosition: "array_position",
    exp.ArrayRemove: "array_remove",
    exp.ArrayToString: "array_to_string",
    exp.StringToArray: "string_to_array",
    exp.UnixToTime: "to_timestamp",
    exp.ToNumber: "to_number",
    exp.Encode: "encode",
    exp.Decode: "decode",
    exp.WidthBucket: "width_bucket",
    exp.JustifyDays: "justify_days",
    exp.JustifyHours: "justify_hours",
    exp.JustifyInterval: "justify_interval",
    exp.TimestampFromParts: "make_timestamp",
    exp.TimeFromParts: "make_time",
    exp.BitLength: "bit_length",
    exp.Factorial: "factorial",
    exp.Format: "format",
    exp.RegexpCount: "regexp_count",
    exp.RegexpInstr: "regexp_instr",
    exp.RegexpSubstr: "regexp_substr",
    exp.Normalize: "normalize",
    exp.Concat: "concat",
    exp.ConcatWs: "concat_ws",
}
_ARGUMENTS: dict[type, tuple[str, ...]] = {
    exp.Format: ("this", "expressions"),
    exp.TimestampFromParts: ("year", "month", "day", "hour", "min", "sec"),
    exp.WidthBucket: ("this", "threshold", "min_value", "max_value", "num_buckets"),
    exp.ArrayPrepend: ("expression", "this"),  # sqlglot has the array first
    exp.TimeFromParts: ("hour", "min", "sec"),
    exp.Encode: ("this", "charset"),
    exp.Decode: ("this", "charset"),
    exp.ToNumber: ("this", "format"),
    exp.RegexpCount: ("this", "expression", "position", "parameters"),
    exp.RegexpInstr: ("this", "expression", "position", "occurrence", "option", "parameters", "group"),
    exp.RegexpSubstr: ("this", "expression", "position", "occurrence", "parameters", "group"),
    exp.ArrayToString: ("this", "expression", "null"),
    exp.StringToArray: ("this", "expression", "null"),
}
_INTERVAL = {"year": 0, "years": 0, "month": 1, "months": 1, "week": 2, "weeks": 2, "day": 3, "days": 3}
_INTERVAL |= {"hour": 4, "hours": 4, "minute": 5, "mins": 5, "min": 5, "minutes": 5, "second": 6, "secs": 6}


FUNCTION_CLASSES: dict[type, tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ("this",)),
    exp.Sign: ("sign", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Cbrt: ("cbrt", ("this",)),
    exp.Exp: ("exp", ("this",)),
    exp.Ln: ("ln", ("this",)),
    exp.Log: ("log", ("this", "expression")),
    exp.Ceil: ("ceil", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Trunc: ("trunc", ("this", "decimals")),
    exp.Upper: ("upper", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Initcap: ("initcap", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.Translate: ("translate", ("this", "from_", "to")),
    exp.Reverse: ("reverse", ("this",)),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.StrPosition: ("strpos", ("this", "substr")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.Chr: ("chr", ("expressions",)),
    exp.Unicode: ("ascii", ("this",)),
    exp.Ascii: ("ascii", ("this",)),
    exp.IntDiv: ("div", ("this", "expression")),
    exp.Hex: ("to_hex", ("this",)),
    exp.MD5: ("md5", ("this",)),
    exp.Pi: ("pi", ()),
    exp.Sin: ("sin", ("this",)),
    exp.Cos: ("cos", ("this",)),
    exp.Tan: ("tan", ("this",)),
    exp.Cot: ("cot", ("this",)),
    exp.Asin: ("asin", ("this",)),
    exp.Acos: ("acos", ("this",)),
    exp.Atan: ("atan", ("this",)),
    exp.Atan2: ("atan2", ("this", "expression")),
    exp.Degrees: ("degrees", ("this",)),
    exp.Radians: ("radians", ("this",)),
    exp.Rand: ("random", ()),
    exp.Uuid: ("gen_random_uuid", ()),
    exp.Overlay: ("overlay", ("this", "expression", "from_", "for_")),
    exp.RegexpReplace: (
        "regexp_replace",
        ("this", "expression", "replacement", "position", "occurrence", "modifiers"),
    ),
}
"""Functions that sqlglot has classes of: PostgreSQL's name, and where the arguments are in its order."""


AGGREGATE_CLASSES: dict[type, str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "variance",
    exp.VariancePop: "var_pop",
    exp.GroupConcat: "string_agg",
    exp.ArrayAgg: "array_agg",
    exp.JSONArrayAgg: "json_agg",
    exp.JSONBObjectAgg: "jsonb_object_agg",
    exp.JSONObjectAgg: "json_object_agg",
    exp.Corr: "corr",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrCount: "regr_count",
    exp.RegrR2: "regr_r2",
    exp.RegrAvgx: "regr_avgx",
    exp.RegrAvgy: "regr_avgy",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
}
"""Aggregates that sqlglot has classes of."""
ORDERED_SET_CLASSES: dict[type, str] = {
    exp.PercentileCont: "percentile_cont",
    exp.PercentileDisc: "percentile_disc",
    exp.Mode: "mode",
}
WINDOW_CLASSES: dict[type, str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
"""Functions that have a meaning over a window alone."""


def joined_literal(node: exp.Concat) -> str | None:
    """The one literal that ``'a'`` and ``'b'`` on two lines are; None of a call of concat()."""
    return None if node.args.get("safe") else "".join(str(one.this) for one in node.expressions)


def named_call(node: exp.Expression) -> tuple[str, list[Any]] | None:
    """The name and arguments of a call or operator; None for what is neither."""
    kind = type(node)
    if isinstance(node, exp.Anonymous):
        name, args = str(node.this).lower(), list(node.expressions)
        if name == "age" and len(args) == 1:  # from midnight of today
            today = exp.Cast(this=exp.CurrentDate(), to=exp.DataType(this=exp.DataType.Type.TIMESTAMP))
            return name, [today, *args]
        return name, args
    if isinstance(node, exp.SHA2Digest):
        return f"sha{node.args.get('length') or 256}", [node.this]
    if isinstance(node, exp.SHA2):
        return f"sha{node.args.get('length') or 256}", [node.this]
    if isinstance(node, exp.MakeInterval):
        return "make_interval", _interval_parts(node)
    symbol = NAMES.get(kind)
    if symbol is None:
        return None
    keys = _ARGUMENTS.get(kind, ("this", "expression", "expressions"))
    found: list[Any] = []
    for key in keys:
        value = node.args.get(key)
        if isinstance(value, exp.JSONPath):
            found.append(_key_or_index(value))
        elif isinstance(value, exp.Expression):
            found.append(value)
        elif isinstance(value, list):
            found += value
    return symbol, found


def _key_or_index(path: exp.JSONPath) -> exp.Expression:
    """What sqlglot took for a path after an arrow: a key, or an index."""
    if len(path.expressions) == 2:
        step = path.expressions[1].this
        if isinstance(step, int):
            return exp.Literal.number(step)
        if isinstance(step, str):
            return exp.Literal.string(step)
    raise SqlError("0A000", "this key after -> is not supported")


def _interval_parts(node: exp.MakeInterval) -> list[Any]:
    """The arguments in their places, those that are not given being 0."""
    values: list[Any] = []
    for at, (key, value) in enumerate(node.args.items()):
        if not isinstance(value, exp.Expression):
            continue
        place, inner = at, value
        if isinstance(value, exp.Kwarg | exp.PropertyEQ):
            word = str(value.this.name).lower()
            if word not in _INTERVAL:
                raise SqlError("42883", f"function make_interval({word} => ...) does not exist")
            place, inner = _INTERVAL[word], value.expression
        del key
        while len(values) <= place:
            values.append(exp.Literal.number(0))
        values[place] = inner
    return values


def subscripts(node: exp.Bracket) -> tuple[exp.Expression, list[Any]]:
    """What ``base[i][low:high]`` is over, and each subscript: an index, or (low, high), None where open."""
    steps: list[Any] = []
    base: Any = node
    while isinstance(base, exp.Bracket):
        if len(base.expressions) != 1:
            raise SqlError("42601", 'syntax error at or near ","')
        one = base.expressions[0]
        steps.append((one.this, one.expression) if isinstance(one, exp.Slice) else one)
        base = base.this
    while isinstance(base, exp.Paren):
        base = base.this
    return base, steps[::-1]


def function_name(node: exp.Expression) -> str:
    """A name for messages."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return function_word(node)


def interval_words(node: exp.Interval) -> str:
    """The text of an INTERVAL literal, with the unit that stands after it where that says anything."""
    text, unit = str(node.this.this), node.args.get("unit")
    if unit is None:
        return text
    if isinstance(unit, exp.IntervalSpan):
        bare_number = re.fullmatch(r"\s*[+-]?\d+\s*", text)
        return f"{text} {unit.expression.name}" if bare_number else text
    return f"{text} {unit.name}"


def identifier(node: exp.Expression) -> str:
    """A name as PostgreSQL reads it: lower case unless quoted."""
    name: str = node.name
    return name if node.args.get("quoted") else name.lower()


def quantifier(node: exp.Expression) -> exp.Expression:
    """ALL over what is no subquery, which sqlglot takes for a function's call, as ALL; all else as it is."""
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "ALL" and len(node.expressions) == 1:
        return exp.All(this=node.expressions[0])
    return node


def leaves(array: exp.Array) -> list[exp.Expression]:
    """The elements of ARRAY[...], of several dimensions those of the innermost."""
    items: list[exp.Expression] = list(array.expressions)
    if items and all(isinstance(item, exp.Array) for item in items):
        return [leaf for item in items if isinstance(item, exp.Array) for leaf in leaves(item)]
    return items


def written_out(array: exp.Expression) -> list[exp.Expression] | None:
    """The elements of ARRAY[...], or of a literal such as ``'{1,2}'`` that may be cast; None of all else."""
    if isinstance(array, exp.Array):
        items = leaves(array)
        return None if any(isinstance(item, exp.Query | exp.Values) for item in items) else items
    to = array.args["to"] if isinstance(array, exp.Cast) else None
    if to is not None and (to.this is not exp.DataType.Type.ARRAY or isinstance(array.this, exp.Array)):
        return None
    inner = array if to is None else array.this
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        return None
    texts = split_array(str(inner.this))
    found: list[exp.Expression] = [exp.null() if one is None else exp.Literal.string(one) for one in texts]
    if to is None:
        return found
    element = to.expressions[0]
    while element.this is exp.DataType.Type.ARRAY:
        element = element.expressions[0]
    return [exp.Cast(this=one, to=element) for one in found]


def bare(node: exp.Expression) -> exp.Expression:
    """``node`` out of its parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def is_row(node: exp.Expression) -> bool:
    """Whether the node is a row constructor."""
    return isinstance(node, exp.Tuple) or (
        isinstance(node, exp.Anonymous) and str(node.this).lower() == "row"
    )


def filled(name: str, args: Sequence[exp.Expression]) -> int | None:
    """How many dimensions ``array_fill`` gives its array, if that can be seen; None of other calls."""
    if name != "array_fill" or len(args) < 2 or not isinstance(args[1], exp.Array):
        return None
    return len(args[1].expressions) or None


def slice_ends(step: Any) -> tuple[tuple[Any, int], tuple[Any, int]]:
    low, high = step if isinstance(step, tuple) else (None, step)
    return (low, FROM_FIRST), (high, TO_LAST)


def is_regclass(node: exp.Expression) -> bool:
    """Whether it is a cast to regclass."""
    return isinstance(node, exp.Cast) and node.to.sql("postgres").lower() in {
        "regclass",
        "pg_catalog.regclass",
    }
