"""Functions of text in queries over the catalog whose second argument decides what they are."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.errors import SqlError
from herdpy_sql.system.rewriter import Rewriter, handles, undefined


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
