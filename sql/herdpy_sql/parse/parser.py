"""One statement to a syntax tree, by sqlglot's postgres dialect, with PostgreSQL's errors.

sqlglot is liberal: it accepts other dialects' syntax, and turns what it does not know into a "Command".
Statements are classified by their first words before it parses them, and a Command that comes back is a
syntax error. Each class of node has here the arguments that planning reads; one that is set and not listed
is 0A000, and all literals of the text must be in the tree. Parsers are kept: making one costs as much as
parsing a point SELECT.
"""

from __future__ import annotations

import functools
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, TokenError
from sqlglot.expressions import Command as UnknownSyntax
from sqlglot.expressions import (
    Create,
    Delete,
    Expr,
    Expression,
    Insert,
    OnConflict,
    Placeholder,
    Returning,
    Select,
    Table,
    TemporaryProperty,
    Update,
    Var,
)
from sqlglot.tokenizer_core import Token

from herdpy_sql.errors import SqlError
from herdpy_sql.node_names import clause_refusal
from herdpy_sql.parse.as_of import AsOf, as_of, lift_as_of, mark, may_read_past
from herdpy_sql.parse.command_tags import command_tag
from herdpy_sql.parse.commands import COMMANDS, Command, parse_command
from herdpy_sql.parse.copy_statement import CopyStatement, parse_copy
from herdpy_sql.parse.dialect import HerdPostgres
from herdpy_sql.parse.foreign_syntax import foreign_stop
from herdpy_sql.parse.lexer import TokenCursor
from herdpy_sql.parse.maintenance import MAINTENANCE, parse_maintenance
from herdpy_sql.parse.object_commands import (
    OBJECT_COMMANDS,
    TABLESPACE_COMMANDS,
    TYPE_COMMANDS,
    ObjectCommand,
    parse_object_command,
    parse_tablespace_command,
    parse_type_command,
)
from herdpy_sql.parse.partition_clauses import check_clauses
from herdpy_sql.parse.program_commands import PROGRAM_COMMANDS, parse_program_command
from herdpy_sql.parse.role_commands import (
    RIGHT_COMMANDS,
    ROLE_COMMANDS,
    parse_right_command,
    parse_role_command,
)
from herdpy_sql.parse.tokens import (
    NEGATIVE_SCALE,
    TYPED_LITERAL,
    IdentityOptions,
    ReferenceOptions,
    arrays_of_ids,
    attach_identity_options,
    attach_references,
    bracketed,
    grouped,
    lift_identity_options,
    lift_on_commit,
    lift_overriding,
    lift_references,
    negative_scales,
    refuse_limit_pairs,
    refuse_search_and_cycle,
    signed_counts,
    typed_literals,
    whole_intervals,
    with_plain_operators,
    without_catalog,
)
from herdpy_sql.parse.unread import unread
from herdpy_sql.types import Base
from herdpy_sql.values.bits import parse_bits

if TYPE_CHECKING:
    from sqlglot.parser import Parser
    from sqlglot.tokens import Tokenizer

    from herdpy_sql.parse.lexer import Statement

_USUAL = frozenset({"this", "expression", "expressions"})
_OUTER = "with_ distinct order limit offset locks"
_CLAUSES = f"{_OUTER} joins laterals where group having windows"


def _also(names: str) -> frozenset[str]:
    return _USUAL | frozenset(names.split())


READ: dict[type[exp.Expr], frozenset[str]] = {
    exp.Alias: _also("alias"),
    exp.Array: _also("value_constructor"),
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
    exp.PartitionBoundSpec: _also("from_expressions to_expressions"),
    exp.Property: _also("value"),
    exp.Rand: frozenset(),
    exp.RegexpCount: _also("position parameters"),
    exp.RegexpInstr: _also("position occurrence option parameters group"),
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


def refuse_unread(tree: exp.Expr, text: str = "") -> list[str]:
    """SqlError 0A000 for an argument, a clause or an option that is not read; gives all literals.

    ``text`` is the statement's, whose words the refusal quotes where it has no name for them.
    """
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
                raise clause_refusal(node, name, text)
            if isinstance(value, exp.Expr):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [one for one in value if isinstance(one, exp.Expr)]
    return literals


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


_QUERIES = frozenset(
    {"SELECT", "VALUES", "WITH", "(", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE", "UPSERT"}
)
_MAKE = frozenset({"CREATE", "ALTER", "DROP"})
_QUALIFIERS = frozenset({"OR", "REPLACE", "TEMP", "TEMPORARY", "UNLOGGED", "GLOBAL", "LOCAL"})
_DEFINED = frozenset({"CREATE TABLE", "CREATE INDEX"})
"""What is known under other words: a statement that only begins so is a syntax error."""
_OF_PROGRAMS = _MAKE | {"DO", "CALL"}
_OF_RIGHTS = frozenset({"GRANT", "REVOKE", "ALTER", "REASSIGN", "DROP"})
_DEFINITIONS = re.compile(
    r"CREATE\s+(?:(?:UNLOGGED\s+|(?:GLOBAL\s+|LOCAL\s+)?TEMP(?:ORARY)?\s+)?TABLE|(?:UNIQUE\s+)?INDEX)\b",
    re.IGNORECASE,
)
_DROPS = re.compile(r"DROP\s+(?:TABLE|INDEX)\b", re.IGNORECASE)
logging.getLogger("sqlglot").addFilter(
    lambda record: "contains unsupported syntax" not in record.getMessage()
)


_NOT_AFTER_COMMA = frozenset(
    {
        TokenType.COMMA,
        TokenType.R_PAREN,
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
        TokenType.UNION,
    }
)
_CHANGES = (Insert, Update, Delete)
_DIALECT = HerdPostgres()
_TYPE_TOKENS = frozenset(_DIALECT.parser().TYPE_TOKENS)
# Free parsers: popped while in use, so that threads never share one.
_FREE: list[tuple[Tokenizer, Parser]] = []


def parse(statement: Statement) -> Expression | Command | CopyStatement:
    """The syntax tree of a statement. SqlError 42601 or 0A000, with a position where one is known."""
    try:
        return _parse(statement)
    except SqlError as error:
        found = unread(statement, error)
        if found is error:
            raise
        raise found from error


def _parse(statement: Statement) -> Expression | Command | CopyStatement:
    keyword = statement.keyword
    if keyword in COMMANDS or (keyword == "DROP" and _DROPS.match(statement.clean)):
        return parse_command(statement)
    if keyword in _OF_RIGHTS and RIGHT_COMMANDS.match(statement.clean):
        return parse_right_command(statement)
    if keyword in _OF_PROGRAMS and PROGRAM_COMMANDS.match(statement.clean):
        return parse_program_command(statement)
    if keyword in {"CREATE", "ALTER", "DROP"} and TYPE_COMMANDS.match(statement.clean):
        return parse_type_command(statement)
    if keyword in {"CREATE", "ALTER", "DROP", "COMMENT"} and OBJECT_COMMANDS.match(statement.clean):
        return parse_object_command(statement)
    if keyword in {"CREATE", "ALTER", "DROP", "CHECK"}:
        if ROLE_COMMANDS.match(statement.clean):
            return parse_role_command(statement)
        if TABLESPACE_COMMANDS.match(statement.clean):
            return parse_tablespace_command(statement)
    if keyword in MAINTENANCE:
        return parse_maintenance(TokenCursor(statement))
    if keyword == "COPY":
        return parse_copy(statement)
    if keyword in _QUERIES or _DEFINITIONS.match(statement.clean):
        return _by_sqlglot(statement)
    raise _no_statement(statement)


def _no_statement(statement: Statement) -> SqlError:
    """Of a statement that no parser here knows: 0A000 if it is a command of PostgreSQL, else 42601."""
    tag = command_tag(statement.clean)
    if tag == "CREATE SEQUENCE":  # with a word before that is not read
        tag = "CREATE UNLOGGED SEQUENCE"
    if tag is not None and tag not in _DEFINED:
        return SqlError("0A000", f"{tag} is not supported", position=statement.offset + 1)
    cursor = TokenCursor(statement)
    cursor.at = int(statement.keyword in _MAKE)
    while cursor.peek() in _QUALIFIERS:
        cursor.at += 1
    return cursor.fail()


def moment_read(statement: Statement) -> AsOf | None:
    """The moment of the past that a statement reads, also by a query within it; None: the present."""
    if not may_read_past(statement.clean):
        return None
    try:
        tree = parse(statement)
    except SqlError:
        return None  # which its planning raises again
    if isinstance(tree, Expression):
        return as_of(tree)
    inner = tree.query if isinstance(tree, CopyStatement) else tree.inner
    if inner is None or (isinstance(tree, Command) and tree.name not in _RUN_WHAT_IS_WITHIN):
        return None
    return moment_read(inner)


_RUN_WHAT_IS_WITHIN = frozenset({"EXPLAIN", "DECLARE"})


def makes_temporary(statement: Statement) -> bool:
    """Whether it makes something temporary, as its syntax says. It is asked at every run."""
    if statement.keyword not in {"CREATE", "SELECT", "WITH"} or "temp" not in statement.clean.lower():
        return False
    return _makes_temporary(statement)


@functools.lru_cache(512)
def _makes_temporary(statement: Statement) -> bool:
    try:
        tree = parse(statement)
    except SqlError:
        return False  # which its planning raises again
    if isinstance(tree, ObjectCommand):
        return tree.name in {"CREATE VIEW", "CREATE SEQUENCE"} and tree.is_temporary
    if not isinstance(tree, Create | Select):
        return False
    into = tree.args.get("into")
    if into is not None:
        return bool(into.args.get("temporary")) or _is_temporary(into)
    return isinstance(tree, Create) and (tree.find(TemporaryProperty) is not None or _is_temporary(tree))


def _is_temporary(made: Expression) -> bool:
    """Whether a thing's name has the schema of temporary ones."""
    named = made.find(Table)
    return named is not None and named.text("db").lower() == "pg_temp"


def _as_sqlglot_reads(tokens: list[Token], text: str) -> list[Token]:
    """The tokens, those put otherwise that sqlglot would read in another sense than PostgreSQL."""
    if "pg_catalog" in text.lower() or "information_schema" in text.lower():
        tokens = without_catalog(tokens)
    if NEGATIVE_SCALE.search(text):
        tokens = negative_scales(tokens)
    if "::" in text or "->" in text:
        tokens = bracketed(grouped(tokens, _TYPE_TOKENS))
    if "FETCH" in text.upper():
        tokens = signed_counts(tokens)
    if "[]" in text:
        tokens = arrays_of_ids(tokens)
    if "LIMIT" in text.upper():
        refuse_limit_pairs(tokens)
    if "RECURSIVE" in text.upper():
        refuse_search_and_cycle(tokens)
    if TYPED_LITERAL.search(text):
        tokens = typed_literals(tokens)
    if "INTERVAL" in text.upper():
        tokens = whole_intervals(tokens)
    return tokens


_BITS = re.compile(r"\b([bBxX])'([^']*)'")
"""Bit strings, whose digits are looked at where sqlglot cannot read a statement."""


def _by_sqlglot(statement: Statement) -> Expression:
    tools = _FREE.pop() if _FREE else (_DIALECT.tokenizer(), _DIALECT.parser())
    tokenizer, parser = tools
    text = statement.clean
    if statement.keyword == "CREATE" and "PARTITION" in text.upper():
        check_clauses(statement)
    try:
        tokens = tokenizer.tokenize(text)
        stop = foreign_stop(tokens)
        if stop is not None:
            raise _near(statement, tokens[stop] if stop < len(tokens) else None)
        moment: AsOf | None = None
        if may_read_past(text):
            tokens, moment = lift_as_of(tokens, statement)
        tokens = _as_sqlglot_reads(tokens, text)
        references: list[ReferenceOptions] = []
        if statement.keyword == "CREATE" and "REFERENCES" in text.upper():
            tokens, references = lift_references(tokens)
        identities: list[IdentityOptions] = []
        if statement.keyword == "CREATE" and "IDENTITY" in text.upper():
            tokens, identities = lift_identity_options(tokens, text)
        ending = ""
        if statement.keyword == "CREATE" and "COMMIT" in text.upper():
            tokens, ending = lift_on_commit(tokens)
        overriding = ""
        if "OVERRIDING" in text.upper():
            tokens, overriding = lift_overriding(tokens)
        upsert = "upsert" in text.lower() and _insert_for_upsert(tokens)
        trees = _parse_tokens(parser, tokens, text)
        if ending and isinstance(trees[0], Expression):
            trees[0].set("on_commit", ending)
        if overriding and isinstance(trees[0], Insert):
            trees[0].set("overriding", overriding)
        if references and isinstance(trees[0], Expression):
            attach_references(trees[0], references)
        if any(identities) and isinstance(trees[0], Expression):
            attach_identity_options(trees[0], identities)
    except ParseError as error:
        raise _syntax_error(statement, error, at_end=_is_at_end(parser)) from error
    except TokenError as error:
        for kind, digits in _BITS.findall(text):
            parse_bits(kind + digits)
        raise SqlError(
            "42601", "syntax error: a token is not complete", position=statement.offset + 1
        ) from error
    except RecursionError as error:
        raise SqlError("54001", "stack depth limit exceeded") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # sqlglot's own slips on malformed text: the text is at fault all the same.
        raise _near(statement, None if _is_at_end(parser) else parser._curr) from error
    _FREE.append(tools)
    tree = trees[0] if trees else None
    if tree is not None and not isinstance(tree, UnknownSyntax):
        refuse_lost(tree, refuse_unread(tree, text), tokens)
    if tree is not None and "?" in text and tree.find(Placeholder):  # other databases' parameters
        raise SqlError("42601", 'syntax error at or near "?"', position=statement.position(text.index("?")))
    if tree is not None and ("[" in text or "<" in text or ":_" in text or "._" in text):
        tree = with_plain_operators(tree)
    if tree is not None and _NAMED_OBJECT.search(text):
        tree = tree.transform(_cast_of_name, copy=False)
    if upsert and isinstance(tree, Insert):
        if tree.args.get("conflict"):
            raise SqlError("42601", 'syntax error at or near "ON"', position=statement.offset + 1)
        tree.set("conflict", OnConflict(action=Var(this="UPSERT")))
    if not isinstance(tree, Expression) or len(trees) != 1 or isinstance(tree, UnknownSyntax):
        raise _near(statement, _stopped_at(parser, tokens, text))
    if moment is not None:
        mark(tree, moment)
    return tree


_NAMED_OBJECT = re.compile(
    rf"\b(?:{'|'.join(one.value for one in Base if one.value.startswith('reg'))})\s*\(", re.IGNORECASE
)


def _cast_of_name(node: exp.Expr) -> exp.Expr:
    """``regclass('t')`` as ``'t'::regclass``, which is what it means; another node as it is."""
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 1:
        return node
    if not _NAMED_OBJECT.match(f"{node.name}("):
        return node
    return exp.Cast(this=node.expressions[0], to=exp.ObjectIdentifier(this=node.name.upper()))


def _insert_for_upsert(tokens: list[Token]) -> bool:
    """Whether the statement is an UPSERT, which sqlglot reads as the INSERT that it is made here."""
    for i, token in enumerate(tokens[:-1]):
        if token.token_type == TokenType.VAR and token.text.upper() == "UPSERT":
            if tokens[i + 1].token_type != TokenType.INTO:
                continue
            tokens[i] = Token(TokenType.INSERT, token.text, token.line, token.col, token.start, token.end)
            return True
    return False


def _parse_tokens(parser: Parser, tokens: list[Token], text: str) -> list[Expr | None]:
    """Parse, RETURNING apart: sqlglot reads no stars in it, so it is read as a SELECT list.

    Commas with nothing after them, which sqlglot passes over, are errors.
    """
    depth = 0
    comma = False
    for i, token in enumerate(tokens):
        kind = token.token_type
        if comma and kind in _NOT_AFTER_COMMA:
            break
        comma = kind == TokenType.COMMA
        if kind == TokenType.L_PAREN:
            depth += 1
        elif kind == TokenType.R_PAREN:
            depth -= 1
        elif kind == TokenType.RETURNING and depth == 0:
            trees = parser.parse(tokens[:i], text)
            select = Token(TokenType.SELECT, token.text, token.line, token.col, token.start, token.end)
            listed = parser.parse([select, *tokens[i + 1 :]], text)[0]
            if trees and isinstance(trees[0], _CHANGES) and isinstance(listed, Select):
                if [key for key, value in listed.args.items() if value] != ["expressions"]:
                    break
                trees[0].set("returning", Returning(expressions=listed.expressions))
                return trees
            break
    else:
        if not comma:
            return parser.parse(tokens, text)
        raise ParseError.new("comma")
    raise ParseError.new("unexpected", line=token.line, col=token.col, highlight=token.text)


_MOST_TRIES = 64
"""How many beginnings of a statement are parsed to find where its reading stops."""


def _stopped_at(parser: Parser, tokens: list[Token], text: str) -> Token | None:
    """The token after the longest beginning that can be parsed; sqlglot does not say where it gave up."""
    depth, ends = 0, []
    for i, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and i:
            ends.append(i)
    for end in reversed(ends[-_MOST_TRIES:]):
        try:
            trees = parser.parse(tokens[:end], text)
        except (ParseError, AttributeError, IndexError, KeyError, TypeError, ValueError):
            continue
        if len(trees) == 1 and isinstance(trees[0], Expression) and not isinstance(trees[0], UnknownSyntax):
            return tokens[end]
    return tokens[1] if len(tokens) > 1 else None


def _near(statement: Statement, token: Token | None) -> SqlError:
    """The syntax error at a token; at the end without one."""
    if token is None:
        return statement.at_end()
    shown = _first_word(statement.clean[token.start : token.end + 1])
    return SqlError("42601", f'syntax error at or near "{shown}"', position=statement.position(token.start))


def _first_word(shown: str) -> str:
    """Of keywords that sqlglot takes for one token ("ORDER BY") the first."""
    return shown.split(maxsplit=1)[0] if shown[:1].isalpha() else shown


def _is_at_end(parser: Parser) -> bool:
    """Whether sqlglot had read all tokens when it failed, and wanted more."""
    return bool(parser._curr.token_type == TokenType.SENTINEL)


def _syntax_error(statement: Statement, error: ParseError, *, at_end: bool) -> SqlError:
    """PostgreSQL's message: sqlglot says the line, the column after the token, and the token."""
    found = error.errors[0] if error.errors else {}
    text, near = statement.clean, str(found.get("highlight") or "")
    line, column = int(found.get("line") or 1), int(found.get("col") or 0)
    offset = 0
    for _ in range(line - 1):
        offset = text.find("\n", offset) + 1
    offset = min(offset + column, len(text))
    is_sqlglots = bool(found.get("description"))  # those found before it reads have none
    if not near or (at_end and is_sqlglots and offset >= len(text)):
        return statement.at_end()
    start = text.rfind(near, 0, offset + len(near))
    if start + len(near) == len(text) and text.count("(") > text.count(")"):
        return statement.at_end()
    return SqlError(
        "42601",
        f'syntax error at or near "{_first_word(near)}"',
        position=statement.position(start if start >= 0 else max(offset - 1, 0)),
    )
