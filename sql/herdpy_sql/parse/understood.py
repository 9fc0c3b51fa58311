"""What of a statement's tree is read: whatever else the parser found in the text is refused, never dropped.

sqlglot reads more than PostgreSQL's grammar and more than the engines do. Each class of node has here the
arguments that planning reads; one that is set and not listed is 0A000. Some arguments are lost in the parser
itself; so all literals of the text must be in the tree, too. It is checked once, when a text is parsed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import Token

from herdpy_sql.errors import SqlError

_USUAL = frozenset({"this", "expression", "expressions"})
_OUTER = "with_ distinct order limit offset locks"
_CLAUSES = f"{_OUTER} joins laterals where group having windows"


def _also(names: str) -> frozenset[str]:
    return _USUAL | frozenset(names.split())


READ: dict[type[exp.Expr], frozenset[str]] = {
    exp.Alias: _also("alias"),
    exp.ArrayToString: _also("null"),
    exp.Atan: frozenset({"this"}),
    exp.AtTimeZone: _also("zone"),
    exp.Between: _also("low high symmetric"),
    exp.Bracket: _also("offset"),
    exp.CTE: _also("alias materialized"),  # whether it is kept apart changes no answer
    exp.Case: _also("ifs default"),
    exp.Cast: _also("to"),
    exp.Ceil: frozenset({"this"}),
    exp.Column: _also("table db catalog"),
    exp.ColumnConstraint: _also("kind"),
    exp.ColumnDef: _also("constraints kind"),
    exp.Concat: _also("coalesce safe"),
    exp.ConcatWs: _also("coalesce safe"),
    exp.Count: _also("big_int"),
    exp.Create: _also("concurrently exists kind on_commit properties replace unique"),
    exp.CurrentDate: frozenset(),
    exp.CurrentTimestamp: frozenset({"this"}),
    exp.DPipe: _also("safe"),
    exp.DataType: _also("kind nested herdpy_enum values"),
    exp.Decode: _also("charset"),
    exp.Delete: _also("returning tables using where with_"),
    exp.Distinct: _also("on"),
    exp.Div: _also("typed safe"),
    exp.Encode: _also("charset"),
    exp.Except: _also(_OUTER),
    exp.ExplodingGenerateSeries: _also("start end step"),
    exp.Fetch: _also("count direction limit_options"),
    exp.Floor: frozenset({"this"}),
    exp.ForeignKey: _also("reference options delete update"),
    exp.GenerateSeries: _also("start end step"),
    exp.GeneratedAsIdentityColumnConstraint: _also("options start increment minvalue maxvalue cycle order"),
    exp.Greatest: _also("ignore_nulls"),
    exp.Group: _also("all grouping_sets cube rollup"),
    exp.GroupConcat: _also("separator"),
    exp.ILike: _also("negate"),
    exp.Identifier: _also("quoted"),
    exp.If: _also("true false"),
    exp.In: _also("field query unnest"),
    exp.Index: _also("params table unique primary"),
    exp.IndexParameters: _also("columns include using where with_storage"),
    exp.Insert: _also("conflict default overriding returning with_"),
    exp.Intersect: _also(_OUTER),
    exp.Interval: _also("unit"),
    exp.Into: _also("temporary unlogged"),
    exp.Is: _also("negate"),
    exp.Join: _also("kind method on side using"),
    exp.Lag: _also("default offset"),
    exp.Lateral: _also("alias ordinality"),
    exp.Lead: _also("default offset"),
    exp.Least: _also("ignore_nulls"),
    exp.Like: _also("negate"),
    exp.LimitOptions: _also("rows with_ties percent"),
    exp.Literal: _also("is_string"),
    exp.Lock: _also("key update wait"),
    exp.MakeInterval: _also("year month week day hour minute second"),
    exp.Merge: _also("on using whens with_"),
    exp.NotNullColumnConstraint: _also("allow_null"),
    exp.NthValue: _also("offset"),
    exp.Normalize: _also("form"),
    exp.OnConflict: _also("action conflict_keys constraint index_predicate where"),
    exp.Operator: _also("operator"),
    exp.Ordered: _also("desc nulls_first"),
    exp.Overlay: _also("for_ from_"),
    exp.Pad: _also("fill_pattern is_left"),
    exp.Placeholder: _also("jdbc"),
    exp.PrimaryKey: _also("include options"),
    exp.PrimaryKeyColumnConstraint: _also("include options"),
    exp.Property: _also("value"),
    exp.Rand: frozenset(),
    exp.RegexpCount: _also("position parameters"),
    exp.RegexpInstr: _also("position occurrence option parameters group"),
    exp.RegexpLike: _also("flag"),
    exp.RegexpReplace: _also("modifiers occurrence position replacement single_replace"),
    exp.RegexpSubstr: _also("position occurrence parameters group"),
    exp.Repeat: _also("times"),
    exp.Replace: _also("replacement"),
    exp.Round: _also("decimals"),
    exp.SHA2Digest: _also("length"),
    exp.SHA2: _also("length"),
    exp.Select: _also(f"{_CLAUSES} from_ into"),
    exp.SplitPart: _also("delimiter part_index"),
    exp.StrPosition: _also("substr"),
    exp.StringToArray: _also("null"),
    exp.Subquery: _also("with_ joins laterals order limit offset locks alias"),
    exp.Substring: _also("length start"),
    exp.Table: _also("alias catalog db joins only ordinality rows_from sample"),
    exp.TableAlias: _also("columns"),
    exp.TableSample: _also("method percent seed"),
    exp.TimeFromParts: _also("hour min sec"),
    exp.TimestampFromParts: _also("year month day hour min sec"),
    exp.TimestampTrunc: _also("unit zone"),
    exp.ToNumber: _also("format"),
    exp.Translate: _also("from_ to"),
    exp.Trim: _also("position"),
    exp.Trunc: _also("decimals"),
    exp.Union: _also(_OUTER),
    exp.Uuid: frozenset({"is_string"}),
    exp.UniqueColumnConstraint: _also("include options"),
    exp.Unnest: _also("alias offset"),
    exp.Update: _also("from_ returning where with_"),
    exp.Values: _also("alias limit offset order"),
    exp.When: _also("condition matched source then"),
    exp.WidthBucket: _also("threshold min_value max_value num_buckets"),
    exp.Window: _also("alias order over partition_by spec"),
    exp.WindowSpec: _also("end end_side exclude kind start start_side"),
    exp.With: _also("recursive"),
    exp.WithDataProperty: _also("no"),
}
"""Of each class the arguments that are read; the usual three of a class that is not here."""

_DELIMITERS = Postgres.INITCAP_DEFAULT_DELIMITER_CHARS
"""What sqlglot adds to initcap where nothing is given."""
_WORDS: dict[str, str] = {"with_": "WITH", "from_": "FROM", "for_": "FOR", "except_": "EXCEPT"}


def refuse_unread(tree: exp.Expr) -> list[str]:
    """SqlError 0A000 for an argument, a clause or an option that is not read; gives all literals."""
    literals: list[str] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind is exp.Literal:
            literals.append(node.args["this"])
            continue
        if kind is exp.Initcap and node.text("expression") != _DELIMITERS:
            raise SqlError("0A000", "delimiters of initcap are not supported")
        read = READ.get(kind, _USUAL)
        for name, value in node.args.items():
            if not value:
                continue
            if name not in read:
                shown = _WORDS.get(name, name.replace("_", " ").strip().upper())
                raise SqlError("0A000", f"{shown} of {_shown(node)} is not supported")
            if isinstance(value, exp.Expr):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [one for one in value if isinstance(one, exp.Expr)]
    return literals


def _shown(node: exp.Expr) -> str:
    return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__


_LITERALS = frozenset({TokenType.STRING, TokenType.NUMBER})


def refuse_lost(tree: exp.Expr, literals: Sequence[str], tokens: Sequence[Token]) -> None:
    """SqlError 0A000 for a literal of the text that is nowhere in the tree, whose ``literals`` are given."""
    asked = Counter([_plain(token.text) for token in tokens if token.token_type in _LITERALS])
    if not asked:
        return
    lost = asked - Counter(map(_plain, literals))
    if lost:
        words = set(_words(tree))
        for text in lost:
            if text.lower() not in words:
                raise SqlError("0A000", f"an argument or option is not supported here: {text}")


def _plain(text: str) -> str:
    """A literal as it is compared: sqlglot writes .5 as 0.5."""
    return f"0{text}" if text.startswith(".") else text


def _words(tree: exp.Expr) -> Iterator[str]:
    """What sqlglot makes of literals that are no literals in its tree: units, intervals, names."""
    for node in tree.find_all(exp.Var, exp.Identifier, exp.Interval):
        if isinstance(node, exp.Interval):
            yield f"{node.this.name} {node.text('unit')}".lower()
        else:
            yield node.name.lower()
