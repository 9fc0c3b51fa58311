"""PL/pgSQL's text to the tree of ``syntax``.

A program is cut into tokens once. Statements of the language are read by their words; SQL between them is cut
out of the text where the grammar says that it ends (THEN, LOOP, a semicolon) outside of parentheses, and not
looked into. Errors are 42601 with a position in the program. Source of the grammar: PostgreSQL 15's manual,
chapter 43.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from herdpy_sql.errors import SqlError
from herdpy_sql.programs import syntax as s
from herdpy_sql.programs.conditions import conditions

_TOKEN = re.compile(
    r"""
      (?P<blank> \s+ | --[^\r\n]* )
    | (?P<comment> /\* )
    | (?P<string> [eE]'(?:[^'\\]|\\.|'')*' | '[^']*(?:''[^']*)*' )
    | (?P<dollar> \$(?P<tag>(?:[^\W\d]\w*)?)\$ )
    | (?P<ident> "[^"]*(?:""[^"]*)*" )
    | (?P<word> [^\W\d][\w$]* )
    | (?P<number> \d+(?:\.(?!\.)\d*)?(?:[eE][-+]?\d+)? | \.\d+ )
    | (?P<param> \$\d+ )
    | (?P<symbol> := | \.\. | << | >> | => | :: | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_EDGE = re.compile(r"/\*|\*/")
MAX_DEPTH = 100
"""The deepest nesting of blocks and loops in a program."""


@dataclass(frozen=True, slots=True)
class ProgramToken:
    """A token: its kind, its text (of a word, in lower case), and where it stands."""

    kind: str
    text: str
    start: int
    end: int


def tokens_of(source: str) -> list[ProgramToken]:
    """The tokens of a program. SqlError 42601 for a comment or string that does not end."""
    found: list[ProgramToken] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        assert match is not None
        kind, end = match.lastgroup or "", match.end()
        if kind == "tag" or match["dollar"] is not None:
            kind, close = "string", source.find(match["dollar"], end)
            if close < 0:
                raise SqlError("42601", "unterminated dollar-quoted string", position=at + 1)
            end = close + len(match["dollar"])
        elif kind == "comment":
            end = _comment_end(source, at)
        if kind not in {"blank", "comment"}:
            text = source[at:end]
            if text in {"'", '"'}:
                raise SqlError("42601", f'unterminated quoted string at or near "{source[at : at + 40]}"')
            found.append(ProgramToken(kind, text.lower() if kind == "word" else text, at, end))
        at = end
    return found


def _comment_end(source: str, start: int) -> int:
    depth, at = 1, start + 2
    while depth:
        edge = _EDGE.search(source, at)
        if edge is None:
            raise SqlError("42601", "unterminated /* comment", position=start + 1)
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
    return at


def parse_program(source: str) -> s.ProgramBlock:
    """The outermost block of a program. SqlError 42601, 0A000."""
    return _Parser(source).program()


_LEVELS = frozenset({"debug", "log", "info", "notice", "warning", "exception"})
RAISE_OPTIONS = frozenset(
    {"errcode", "message", "detail", "hint", "column", "constraint", "datatype", "table", "schema"}
)
_ITEMS = frozenset({"row_count", "pg_context"})
_STACKED = {
    "returned_sqlstate", "message_text", "pg_exception_detail", "pg_exception_hint", "pg_exception_context",
    "column_name", "constraint_name", "pg_datatype_name", "table_name", "schema_name",
}  # fmt: skip
_QUERIES = frozenset(
    {"select", "with", "values", "table", "(", "insert", "update", "delete", "explain", "show"}
)
"""What the query of a FOR loop begins with; else it is a cursor."""
_ENDS = frozenset({"end", "exception", "elsif", "elseif", "else", "when"})
"""Words that end a list of statements."""


class _Parser:
    """One pass over the tokens of a program."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokens_of(source)
        self.at = 0
        self.depth = 0
        self.labels: list[tuple[str, bool]] = []  # those around, and whether of a loop

    # Tokens.

    def peek(self, ahead: int = 0) -> str:
        """The next token's text; "" at the end."""
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        """Step over these, if they come next."""
        if all(self.peek(i) == word for i, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        """Step over these. SqlError 42601."""
        for word in words:
            if not self.accept(word):
                raise self.fail()

    def fail(self) -> SqlError:
        """The syntax error at the next token."""
        if self.at >= len(self.tokens):
            return SqlError("42601", "syntax error at end of input")
        token = self.tokens[self.at]
        shown = self.source[token.start : token.end]
        return SqlError("42601", f'syntax error at or near "{shown}"', position=token.start + 1)

    def line(self) -> int:
        """The line of the next token."""
        start = self.tokens[self.at].start if self.at < len(self.tokens) else len(self.source)
        return self.source.count("\n", 0, start) + 1

    def name(self) -> str:
        """An identifier, folded unless quoted."""
        if self.at >= len(self.tokens):
            raise self.fail()
        token = self.tokens[self.at]
        if token.kind == "word":
            found = token.text
        elif token.kind == "ident":
            found = token.text[1:-1].replace('""', '"')
        else:
            raise self.fail()
        self.at += 1
        return found

    def until(self, ends: Collection[str], start: int | None = None) -> str:
        """The text up to the first of ``ends`` outside of parentheses and CASE, which is left there."""
        begin = self.at if start is None else start
        depth = cases = 0
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if depth == 0 and cases == 0 and token.text in ends and token.kind != "ident":
                break
            if token.text in {"(", "["}:
                depth += 1
            elif token.text in {")", "]"}:
                depth -= 1
            elif token.kind == "word":
                cases += (token.text == "case") - (token.text == "end" and cases > 0)
            elif token.text == ";":
                raise self.fail()
            self.at += 1
        else:
            raise self.fail()
        if self.at == begin:
            raise self.fail()
        return self.source[self.tokens[begin].start : self.tokens[self.at - 1].end]

    def expression(self, *ends: str) -> s.Fragment:
        """A fragment that gives one value, up to one of ``ends``."""
        line, begin = self.line(), self.at
        text = self.until(frozenset(ends))
        taken = self.tokens[begin : self.at]
        name = ""
        if all(one.kind in {"word", "ident"} or one.text == "." for one in taken) and len(taken) % 2:
            name = text
        return s.Fragment(f"SELECT {text}", line, is_expression=True, name=name)

    def expressions(self, *ends: str) -> tuple[s.Fragment, ...]:
        """Such, with commas between them; the end is left there."""
        found = [self.expression(",", *ends)]
        while self.accept(","):
            found.append(self.expression(",", *ends))
        return tuple(found)

    # Blocks.

    def program(self) -> s.ProgramBlock:
        while self.peek() == "#":
            self._directive()
        block = self.block(self.label())
        self.accept(";")
        if self.at < len(self.tokens):
            raise self.fail()
        return block

    def _directive(self) -> None:
        self.at += 1
        word, value = self.name(), self.name()
        if (word, value) == ("variable_conflict", "error"):
            return
        raise SqlError("0A000", f"#{word} {value} is not supported")

    def label(self) -> str:
        """<<label>>, where there is one."""
        if not self.accept("<<"):
            return ""
        found = self.name()
        self.expect(">>")
        return found

    def block(self, label: str) -> s.ProgramBlock:
        """A block; its label has been read."""
        self._deeper()
        line = self.line()
        declared: list[s.Declaration] = []
        while self.accept("declare"):
            while self.peek() not in {"begin", "declare", ""}:
                declared.append(self.declaration())
        names = [one.name for one in declared]
        for name in names:
            if names.count(name) > 1:
                raise SqlError("42601", f'duplicate declaration at or near "{name}"')
        self.expect("begin")
        self.labels.append((label, False))
        body = self.statements()
        handlers = self.handlers() if self.accept("exception") else None
        self.expect("end")
        self._end_label(label)
        self.labels.pop()
        self.depth -= 1
        return s.ProgramBlock(line, label, tuple(declared), body, handlers)

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise SqlError("54001", "the program is nested too deeply")

    def _end_label(self, label: str) -> None:
        """The label behind END, which must be that of the beginning."""
        if self.peek() in {";", ""}:
            return
        found = self.name()
        if not label:
            raise SqlError("42601", f'end label "{found}" specified for unlabeled block')
        if found != label:
            raise SqlError("42601", f'end label "{found}" differs from block\'s label "{label}"')

    def declaration(self) -> s.Declaration:
        line, name = self.line(), self.name()
        if self.accept("alias", "for"):
            if self.tokens[self.at].kind == "param":
                alias = self.peek()
                self.at += 1
            else:
                alias = self.name()
            self.expect(";")
            return s.Declaration(name, alias=alias, line=line)
        constant = self.accept("constant")
        if self.peek() in {"cursor", "refcursor"} or (self.peek() == "no" and self.peek(1) == "scroll"):
            raise SqlError("0A000", "cursors in PL/pgSQL are not supported")
        type_ = self.until(frozenset({";", ":=", "=", "default", "not", "collate"}))
        if self.peek() == "collate":
            raise SqlError("0A000", "COLLATE of a variable is not supported")
        not_null = self.accept("not", "null")
        default = None
        if self.peek() in {":=", "=", "default"}:
            self.at += 1
            default = self.expression(";")
        elif not_null:
            raise SqlError(
                "22004", f'variable "{name}" must have a default value, since it\'s declared NOT NULL'
            )
        self.expect(";")
        return s.Declaration(name, type_, constant, not_null, default, line=line)

    def handlers(self) -> tuple[s.ExceptionHandler, ...]:
        found: list[s.ExceptionHandler] = []
        while self.accept("when"):
            codes = self._condition()
            while self.accept("or"):
                codes += self._condition()
            self.expect("then")
            found.append(s.ExceptionHandler(tuple(codes), self.statements()))
        if not found:
            raise self.fail()
        return tuple(found)

    def _condition(self) -> list[str]:
        if self.accept("sqlstate"):
            return [self._sqlstate()]
        name = self.name()
        if name == "others":
            return [""]
        return list(known_condition(name))

    def _sqlstate(self) -> str:
        code = self.string()
        if not re.fullmatch(r"[0-9A-Z]{5}", code):
            raise SqlError("42601", "invalid SQLSTATE code")
        return code

    def string(self) -> str:
        """A plain string."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None or token.kind != "string":
            raise self.fail()
        self.at += 1
        return string_value(token.text)

    # Statements.

    def statements(self) -> tuple[s.ProgramStep, ...]:
        """Statements up to a word that ends them."""
        found: list[s.ProgramStep] = []
        while self.peek() not in _ENDS:
            if not self.peek():
                raise self.fail()
            found.append(self.statement())
        return tuple(found)

    def statement(self) -> s.ProgramStep:
        line, label = self.line(), self.label()
        word = self.peek()
        if word in {"declare", "begin"}:
            found: s.ProgramStep = self.block(label)
            self.expect(";")
            return found
        if word in _LOOPS:
            return _LOOPS[word](self, line, label)
        if label:
            raise self.fail()
        if self._is_assignment():
            return self.assignment(line)
        reader = _READERS.get(word)
        return self.sql(line) if reader is None else reader(self, line)

    def _is_assignment(self) -> bool:
        """Whether a target and := (or =) come next."""
        at = self.at
        if self.tokens[at].kind not in {"word", "ident", "param"}:
            return False
        at += 1
        depth = 0
        while at < len(self.tokens):
            text = self.tokens[at].text
            if text == "[":
                depth += 1
            elif text == "]":
                depth -= 1
            elif depth == 0:
                if text == ".":
                    at += 2
                    continue
                return text in {":=", "="}
            at += 1
        return False

    def target(self) -> s.Target:
        """What is assigned to."""
        line = self.line()
        if self.at < len(self.tokens) and self.tokens[self.at].kind == "param":
            path = [self.peek()]
            self.at += 1
        else:
            path = [self.name()]
        while self.accept("."):
            path.append(self.name())
        subscripts: list[s.Fragment] = []
        while self.accept("["):
            subscripts.append(self.expression("]", ":"))
            if self.peek() == ":":
                raise SqlError("0A000", "assignment to a slice of an array is not supported")
            self.expect("]")
        return s.Target(tuple(path), tuple(subscripts), line)

    def targets(self) -> tuple[s.Target, ...]:
        found = [self.target()]
        while self.accept(","):
            found.append(self.target())
        return tuple(found)

    def assignment(self, line: int) -> s.ProgramStep:
        target = self.target()
        self.at += 1
        value = self.expression(";")
        self.expect(";")
        return s.Assign(line, target, value)

    def if_(self, line: int) -> s.ProgramStep:
        self._deeper()
        self.at += 1
        branches: list[tuple[s.Fragment, tuple[s.ProgramStep, ...]]] = []
        otherwise: tuple[s.ProgramStep, ...] = ()
        while True:
            condition = self.expression("then")
            self.expect("then")
            branches.append((condition, self.statements()))
            if self.accept("elsif") or self.accept("elseif"):
                continue
            if self.accept("else"):
                otherwise = self.statements()
            self.expect("end", "if", ";")
            self.depth -= 1
            return s.If(line, tuple(branches), otherwise)

    def case(self, line: int) -> s.ProgramStep:
        self._deeper()
        self.at += 1
        operand = None if self.peek() == "when" else self.expression("when")
        branches: list[tuple[tuple[s.Fragment, ...], tuple[s.ProgramStep, ...]]] = []
        while self.accept("when"):
            tests = self.expressions("then") if operand is not None else (self.expression("then"),)
            self.expect("then")
            branches.append((tests, self.statements()))
        if not branches:
            raise self.fail()
        otherwise = self.statements() if self.accept("else") else None
        self.expect("end", "case", ";")
        self.depth -= 1
        return s.CaseStatement(line, operand, tuple(branches), otherwise)

    def _body(self, label: str) -> tuple[s.ProgramStep, ...]:
        """LOOP ... END LOOP [label];"""
        self._deeper()
        self.expect("loop")
        self.labels.append((label, True))
        body = self.statements()
        self.expect("end", "loop")
        self._end_label(label)
        self.expect(";")
        self.labels.pop()
        self.depth -= 1
        return body

    def loop(self, line: int, label: str) -> s.ProgramStep:
        condition = self.expression("loop") if self.accept("while") else None
        return s.Loop(line, label, condition, self._body(label))

    def for_(self, line: int, label: str) -> s.ProgramStep:
        self.at += 1
        targets = self.targets()
        self.expect("in")
        reverse = self.accept("reverse")
        begin = self.at
        if self.accept("execute"):
            query = self.expression("loop", "using")
            using = self.expressions("loop") if self.accept("using") else ()
            return s.ForQuery(line, label, targets, query, True, using, self._body(label))
        text = self.until(frozenset({"loop", ".."}))
        if self.peek() == "..":
            if len(targets) != 1 or len(targets[0].path) != 1:
                raise SqlError("42601", "integer FOR loop must have only one target variable")
            low = s.Fragment(f"SELECT {text}", line, is_expression=True)
            self.at += 1
            high = self.expression("loop", "by")
            step = self.expression("loop") if self.accept("by") else None
            body = self._body(label)
            return s.ForRange(line, label, targets[0].path[0], reverse, low, high, step, body)
        if reverse:
            raise SqlError("42601", "cannot specify REVERSE in query FOR loop")
        if self.tokens[begin].text not in _QUERIES:
            raise SqlError("0A000", "cursors in PL/pgSQL are not supported")
        return s.ForQuery(line, label, targets, s.Fragment(text, line), False, (), self._body(label))

    def foreach(self, line: int, label: str) -> s.ProgramStep:
        self.at += 1
        target = self.target()
        if self.peek() == "slice":
            raise SqlError("0A000", "FOREACH ... SLICE is not supported")
        self.expect("in", "array")
        array = self.expression("loop")
        return s.ForEach(line, label, target, array, self._body(label))

    def leave(self, line: int) -> s.ProgramStep:
        goes_on = self.peek() == "continue"
        self.at += 1
        label = "" if self.peek() in {";", "when"} else self.name()
        condition = self.expression(";") if self.accept("when") else None
        self.expect(";")
        self._check_label("CONTINUE" if goes_on else "EXIT", label, goes_on=goes_on)
        return s.Leave(line, goes_on, label, condition)

    def _check_label(self, word: str, label: str, *, goes_on: bool) -> None:
        if not label:
            if not any(is_loop for _, is_loop in self.labels):
                if goes_on:
                    raise SqlError("42601", "CONTINUE cannot be used outside a loop")
                raise SqlError("42601", "EXIT cannot be used outside a loop, unless it has a label")
            return
        found = [is_loop for name, is_loop in self.labels if name == label]
        if not found:
            raise SqlError(
                "42601", f'there is no label "{label}" attached to any block or loop enclosing this statement'
            )
        if goes_on and not found[-1]:
            raise SqlError("42601", f'block label "{label}" cannot be used in CONTINUE')

    def return_(self, line: int) -> s.ProgramStep:
        self.at += 1
        if self.accept("next"):
            value = None if self.peek() == ";" else self.expression(";")
            self.expect(";")
            return s.ReturnNext(line, value)
        if self.accept("query"):
            if self.accept("execute"):
                query = self.expression(";", "using")
                using = self.expressions(";") if self.accept("using") else ()
                self.expect(";")
                return s.ReturnQuery(line, query, True, using)
            text = self.until(frozenset({";"}))
            self.expect(";")
            return s.ReturnQuery(line, s.Fragment(text, line), False, ())
        value = None if self.peek() == ";" else self.expression(";")
        self.expect(";")
        return s.Return(line, value)

    def raise_(self, line: int) -> s.ProgramStep:
        self.at += 1
        if self.accept(";"):
            return s.Raise(line, "", None, (), "", "", ())
        level = "EXCEPTION"
        if self.peek() in _LEVELS:
            level = self.name().upper()
        text, sqlstate, condition = None, "", ""
        values: tuple[s.Fragment, ...] = ()
        if self.peek() not in {"using", ";"}:
            token = self.tokens[self.at]
            if token.kind == "string":
                text = self.string()
                if self.accept(","):
                    values = self.expressions(";", "using")
                _check_places(text, len(values))
            elif self.accept("sqlstate"):
                sqlstate = self._sqlstate()
            else:
                condition = self.name()
                sqlstate = known_condition(condition)[0]
        options = self._options() if self.accept("using") else ()
        self.expect(";")
        return s.Raise(line, level, text, values, sqlstate, condition, options)

    def _options(self) -> tuple[tuple[str, s.Fragment], ...]:
        found: list[tuple[str, s.Fragment]] = []
        while True:
            name = self.name()
            if name not in RAISE_OPTIONS:
                self.at -= 1
                raise SqlError("42601", f'unrecognized RAISE statement option at or near "{name}"')
            if not (self.accept("=") or self.accept(":=")):
                raise self.fail()
            found.append((name, self.expression(",", ";")))
            if not self.accept(","):
                return tuple(found)

    def assert_(self, line: int) -> s.ProgramStep:
        self.at += 1
        condition = self.expression(",", ";")
        message = self.expression(";") if self.accept(",") else None
        self.expect(";")
        return s.Assert(line, condition, message)

    def get(self, line: int) -> s.ProgramStep:
        self.at += 1
        stacked = self.accept("stacked")
        if not stacked:
            self.accept("current")
        self.expect("diagnostics")
        items: list[tuple[s.Target, str]] = []
        while True:
            target = self.target()
            if not (self.accept("=") or self.accept(":=")):
                raise self.fail()
            item = self.name()
            if item not in (_STACKED if stacked else _ITEMS):
                self.at -= 1
                if item in _STACKED or item in _ITEMS:
                    which = "GET CURRENT" if item in _STACKED else "GET STACKED"
                    shown = item.upper()
                    raise SqlError("42601", f"diagnostics item {shown} is not allowed in {which} DIAGNOSTICS")
                raise SqlError("42601", f'unrecognized GET DIAGNOSTICS item at or near "{item}"')
            if item in {"pg_context", "pg_exception_context"}:
                raise SqlError("0A000", f"diagnostics item {item.upper()} is not supported")
            items.append((target, item))
            if not self.accept(","):
                break
        self.expect(";")
        return s.GetDiagnostics(line, stacked, tuple(items))

    def execute(self, line: int) -> s.ProgramStep:
        self.at += 1
        text = self.expression(";", "into", "using")
        targets: tuple[s.Target, ...] | None = None
        using: tuple[s.Fragment, ...] = ()
        strict = False
        while self.peek() != ";":
            if self.accept("into") and targets is None:
                strict = self.accept("strict")
                targets = self.targets()
            elif self.accept("using") and not using:
                using = self.expressions(";", "into")
            else:
                raise self.fail()
        self.expect(";")
        return s.ExecuteText(line, text, targets, strict, using)

    def perform(self, line: int) -> s.ProgramStep:
        self.at += 1
        text = self.until(frozenset({";"}))
        self.expect(";")
        return s.RunSql(line, s.Fragment(f"SELECT {text}", line), None, False, True)

    def null(self, line: int) -> s.ProgramStep:
        self.at += 1
        self.expect(";")
        return s.Nothing(line)

    def refused(self, line: int) -> s.ProgramStep:
        del line
        word = self.peek().upper()
        if word in {"COMMIT", "ROLLBACK"}:
            raise SqlError("0A000", f"{word} in PL/pgSQL is not supported")
        raise SqlError("0A000", f"{word} in PL/pgSQL is not supported")

    def sql(self, line: int) -> s.ProgramStep:
        """A statement of SQL, from which INTO is taken out."""
        if self.tokens[self.at].kind not in {"word", "ident"} and self.peek() != "(":
            raise self.fail()
        begin = self.at
        first = self.peek()
        depth, into = 0, -1
        while self.at < len(self.tokens) and not (depth == 0 and self.peek() == ";"):
            text = self.peek()
            depth += (text in {"(", "["}) - (text in {")", "]"})
            if text == "into" and depth == 0 and self._takes_into(begin, first):
                into = self.at
                break
            self.at += 1
        if into < 0:
            self.at = begin
            text = self.until_semicolon(begin)
            self.expect(";")
            return s.RunSql(line, s.Fragment(text, line), None, False, False)
        self.at = into + 1
        strict = self.accept("strict")
        targets = self.targets()
        rest = self.at
        before = self.source[self.tokens[begin].start : self.tokens[into].start]
        if self.peek() != ";":
            before += self.until_semicolon(rest)
        self.expect(";")
        return s.RunSql(line, s.Fragment(before.rstrip(), line), targets, strict, False)

    def until_semicolon(self, begin: int) -> str:
        """The text up to the semicolon."""
        while self.at < len(self.tokens) and self.peek() != ";":
            self.at += 1
        if self.at >= len(self.tokens):
            raise self.fail()
        return self.source[self.tokens[begin].start : self.tokens[self.at - 1].end]

    def _takes_into(self, begin: int, first: str) -> bool:
        """Whether INTO here is the program's, and not that of INSERT, MERGE or IMPORT."""
        before = self.tokens[self.at - 1].text if self.at > begin else ""
        return first not in {"import"} and before not in {"insert", "merge", "upsert"}


def string_value(text: str) -> str:
    """What a string literal says."""
    if text.startswith("$"):
        tag = text[: text.index("$", 1) + 1]
        return text[len(tag) : -len(tag)]
    if text[:1] in {"e", "E"}:
        return re.sub(
            r"\\(.)|''", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]) if m[1] else "'", text[2:-1]
        )
    return text[1:-1].replace("''", "'")


def known_condition(name: str) -> tuple[str, ...]:
    """The SQLSTATEs of a condition. SqlError 42704."""
    found = conditions().get(name)
    if found is None:
        raise SqlError("42704", f'unrecognized exception condition "{name}"')
    return found


def _check_places(text: str, count: int) -> None:
    places = text.replace("%%", "").count("%")
    if places > count:
        raise SqlError("42601", "too few parameters specified for RAISE")
    if places < count:
        raise SqlError("42601", "too many parameters specified for RAISE")


_LOOPS: dict[str, Callable[[_Parser, int, str], s.ProgramStep]] = {
    "loop": _Parser.loop,
    "while": _Parser.loop,
    "for": _Parser.for_,
    "foreach": _Parser.foreach,
}
_READERS: dict[str, Callable[[_Parser, int], s.ProgramStep]] = {
    "if": _Parser.if_,
    "case": _Parser.case,
    "exit": _Parser.leave,
    "continue": _Parser.leave,
    "return": _Parser.return_,
    "raise": _Parser.raise_,
    "assert": _Parser.assert_,
    "get": _Parser.get,
    "execute": _Parser.execute,
    "perform": _Parser.perform,
    "null": _Parser.null,
    "open": _Parser.refused,
    "fetch": _Parser.refused,
    "move": _Parser.refused,
    "close": _Parser.refused,
    "commit": _Parser.refused,
    "rollback": _Parser.refused,
}
"""What reads a statement, by its first word; any other is SQL."""
