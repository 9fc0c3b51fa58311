"""What sqlglot makes classes of, as the library calls it: a name, or an operator's symbol, and arguments."""

from __future__ import annotations

from typing import Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError

NAMES: dict[type, str] = {
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
