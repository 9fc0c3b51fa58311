"""A text cut into statements, and a statement into words.

``split`` is one pass of one regular expression. It finds the semicolons that end statements, counts nesting
before any recursive parser sees the text, and rewrites what only PostgreSQL's lexer reads rightly: comments
become blanks, ``$tag$...$tag$`` and ``E'...'`` strings become plain ones (sqlglot would take ``$1,$2`` for a
dollar quote, and knows fewer escapes). :class:`TokenCursor` goes through the words of a statement for the
small parsers of ``commands`` and its neighbours: words, names and values come out, or the syntax error
(42601) where it is.

Source of the rules: PostgreSQL 15 manual, 4.1 "Lexical Structure".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from herdpy_sql.errors import SqlError

DEFAULT_MAX_BYTES = 16 << 20
"""The longest text accepted, in bytes of UTF-8."""

MAX_NESTING = 200
"""The deepest nesting of parentheses, CASE and prefix operators in one statement."""

MAX_BRACKETS = 8
"""The deepest nesting of square brackets: parsing them takes time exponential in their depth."""

MAX_SUBSCRIPTS = 100
"""Subscripts that follow each other in one statement: parsing n of them takes time quadratic in n."""

_LEX = re.compile(
    r"""
      (?P<escape> [eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*' )
    | (?P<unicode> [uU]&['"] )
    | (?P<word> [^\W\d][\w$]* )
    | (?P<string> '[^']*(?:''[^']*)*' )
    | (?P<ident> "[^"]*(?:""[^"]*)*" )
    | (?P<line> --[^\r\n]* )
    | (?P<block> /\* )
    | (?P<number> \d[\w.]* | \.\d\w* )
    | (?P<param> \$\d+ )
    | (?P<dollar> \$(?:[^\W\d]\w*)?\$ )
    | (?P<open> [(\[] )
    | (?P<close> [)\]] )
    | (?P<end> ; )
    | (?P<prefix> [-+~@!] )
    | (?P<open_quote> ['"] )
    | (?P<invalid> [\\{}\x00-\x08\x0b\x0e-\x1f`] )
    | (?P<other> \S )
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE]\d+)?\Z")
_EXPONENT = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)[eE]\Z")
_SCIENTIFIC = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)[eE]\d+\Z")
_SIGNED_DIGIT = re.compile(r"[+-]\d")
_SECOND_POINT = re.compile(r"\d*\.\d+(\.\w*)")
_STRINGS = frozenset({"string", "escape", "dollar"})
_PASSWORD = re.compile(r"PASSWORD(?!\w)", re.IGNORECASE)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_NOT_NEWLINE = re.compile(r"[^\r\n]")
_ESCAPES = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL
)
_ESCAPE_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a text.

    Attributes:
        text: as it was written, without the semicolon, blanks and comments around it stripped.
        clean: the same with comments blanked and special strings made plain, for the parser.
        offset: where ``text`` starts in the text it was cut from, in characters.
        keyword: its first word, in capitals; "(" for a query in parentheses.
        edits: (position in ``clean``, characters to add for the position in ``text``) from there on.
    """

    text: str
    clean: str
    offset: int
    keyword: str
    edits: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    def position(self, clean_offset: int) -> int:
        """The 1-based position in the whole text of a 0-based offset into ``clean``."""
        shift = 0
        for start, delta in self.edits:
            if start > clean_offset:
                break
            shift = delta
        return self.offset + clean_offset + shift + 1

    def at_end(self) -> SqlError:
        """The syntax error of a statement that ends too early."""
        return SqlError("42601", "syntax error at end of input", position=self.position(len(self.clean)))


def split(sql: str, max_bytes: int = DEFAULT_MAX_BYTES) -> list[Statement]:
    """Cut a text at its semicolons; empty statements are left out.

    Raises SqlError 54000 (longer than ``max_bytes``), 54001 (nested too deeply), 22021 (NUL, or not
    valid Unicode), 42601 (an unterminated quote or comment, a character that no token starts with).
    """
    _check_text(sql, max_bytes)
    return _Splitter(sql).run()


def _check_text(sql: str, max_bytes: int) -> None:
    if len(sql) > max_bytes or (not sql.isascii() and _utf8_length(sql) > max_bytes):
        raise SqlError("54000", f"statement is too long: at most {max_bytes} bytes are accepted")
    if "\x00" in sql:
        raise SqlError(
            "22021", 'invalid byte sequence for encoding "UTF8": 0x00', position=sql.index("\x00") + 1
        )


def _utf8_length(sql: str) -> int:
    try:
        return len(sql.encode())
    except UnicodeEncodeError as error:
        shown = f"U+{ord(sql[error.start]):04X}"
        raise SqlError(
            "22021", f'invalid character {shown} for encoding "UTF8"', position=error.start + 1
        ) from error


class _Splitter:
    """The state of one pass over a text."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.statements: list[Statement] = []
        self.edits: list[tuple[int, int, str]] = []
        self._begin(0)

    def _begin(self, start: int) -> None:
        self.first = -1  # where the statement's first token starts
        self.last = start  # where its last token ends
        self.keyword = ""
        self.edits.clear()
        self.kind = ""  # of the last token
        self.depth = self.brackets = self.cases = self.prefixes = self.subscripts = 0

    def run(self) -> list[Statement]:
        sql, position = self.sql, 0
        search = _LEX.search
        while match := search(sql, position):
            kind = match.lastgroup
            start, position = match.span()
            if kind == "word":
                self._word(match.group().upper())
            elif kind == "end":
                self._finish()
                self._begin(position)
                continue
            elif kind == "line":
                self.edits.append((start, position, " " * (position - start)))
                continue
            elif kind == "block":
                position = self._comment_end(start)
                self.edits.append((start, position, _NOT_NEWLINE.sub(" ", sql[start:position])))
                continue
            elif kind == "number":
                self._check_number(start, match.group())
                if sql[start] == ".":  # of which sqlglot makes a part of a name, after an operator
                    self.edits.append((start, start, " 0" if self.last == start else "0"))
                if _SCIENTIFIC.match(match.group()) and sql[position : position + 1] in {"+", "-"}:
                    self.edits.append((position, position, " "))  # sqlglot takes 1e8+1 for one number
            elif kind == "prefix":
                self._deeper(start, prefix=True)
            elif kind == "open":
                self._open(start)
            elif kind == "close":
                self._close(start)
            elif kind == "escape":
                self.edits.append((start, position, _plain(_unescape(match.group()[2:-1], start))))
            elif kind == "dollar":
                body_start = position
                position = self._dollar_end(start, match.group())
                body = sql[body_start : position - len(match.group())]
                self.edits.append((start, position, _plain(body)))
            elif kind in {"open_quote", "unicode", "invalid"}:
                self._refuse(start, match.group())
            if kind in _STRINGS and self.kind in _STRINGS:
                self._check_continued(start, position, kind)
            self.kind = kind or ""
            if kind not in {"word", "prefix"}:
                self.prefixes = 0
            if self.first < 0:
                self.first = start
                self.keyword = match.group().upper() if kind == "word" else sql[start]
            self.last = position
        self._finish()
        return self.statements

    def _check_number(self, start: int, text: str) -> None:
        """SqlError 42601 for letters and points that stick to a number."""
        end = start + len(text)
        if _NUMBER.match(text):
            return
        if _EXPONENT.match(text) and self.sql[end : end + 1] in {"+", "-"}:
            if _SIGNED_DIGIT.match(self.sql, end):
                return
            text = self.sql[start : end + 1]
        if ".." in text:
            raise SqlError("42601", 'syntax error at or near ".."', position=start + text.index("..") + 1)
        if more := _SECOND_POINT.match(text):
            start, text = start + more.start(1), more[1]
            if text == "." or _NUMBER.match(text):
                raise SqlError("42601", f'syntax error at or near "{text}"', position=start + 1)
        raise SqlError(
            "42601", f'trailing junk after numeric literal at or near "{text}"', position=start + 1
        )

    def _check_continued(self, start: int, end: int, kind: str | None) -> None:
        """SqlError 42601 where a string follows another; a plain one may, on a new line."""
        if kind != "string" or self.kind == "dollar" or not re.search(r"[\r\n]", self.sql[self.last : start]):
            near = self.sql[start:end]
            raise SqlError("42601", f'syntax error at or near "{near}"', position=start + 1)

    def _word(self, word: str) -> None:
        if word == "NOT":
            self.prefixes += 1
        else:
            self.prefixes = 0
            if word == "CASE":
                self.cases += 1
            elif word == "END" and self.cases:
                self.cases -= 1
        if self.prefixes + self.cases + self.depth > MAX_NESTING:
            raise _too_deep()

    def _deeper(self, start: int, *, prefix: bool) -> None:
        del start
        self.prefixes += prefix
        if self.prefixes + self.cases + self.depth > MAX_NESTING:
            raise _too_deep()

    def _open(self, start: int) -> None:
        self.depth += 1
        self._deeper(start, prefix=False)
        if self.sql[start] == "[":
            self.brackets += 1
            self.subscripts += self.sql[self.last - 1] == "]"
            if self.brackets > MAX_BRACKETS or self.subscripts > MAX_SUBSCRIPTS:
                raise _too_deep()

    def _close(self, start: int) -> None:
        self.depth -= 1
        if self.sql[start] == "]":
            self.brackets -= 1

    def _comment_end(self, start: int) -> int:
        depth, position = 1, start + 2
        while depth:
            edge = _COMMENT_EDGE.search(self.sql, position)
            if edge is None:
                raise SqlError("42601", "unterminated /* comment", position=start + 1)
            depth += 1 if edge.group() == "/*" else -1
            position = edge.end()
        return position

    def _dollar_end(self, start: int, tag: str) -> int:
        found = self.sql.find(tag, start + len(tag))
        if found < 0:
            raise SqlError("42601", "unterminated dollar-quoted string", position=start + 1)
        return found + len(tag)

    def _refuse(self, start: int, text: str) -> None:
        if text[-1] in "'\"" and len(text) > 1:
            raise SqlError("0A000", "Unicode-escaped strings (U&) are not supported", position=start + 1)
        if text in {"'", '"'}:
            what = "string" if text == "'" else "identifier"
            near = self.sql[start : start + 40]
            if _PASSWORD.search(self.sql, 0, start):
                near = text  # it may be the beginning of one
            raise SqlError("42601", f'unterminated quoted {what} at or near "{near}"', position=start + 1)
        raise SqlError("42601", f'syntax error at or near "{text}"', position=start + 1)

    def _finish(self) -> None:
        if self.first < 0:
            return
        text = self.sql[self.first : self.last]
        clean, edits = (text, ()) if not self.edits else self._apply()
        self.statements.append(Statement(text, clean, self.first, self.keyword, edits))

    def _apply(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        pieces: list[str] = []
        shifts: list[tuple[int, int]] = []
        position, length = self.first, 0
        for start, end, replacement in self.edits:
            if end <= self.first or start >= self.last:
                continue  # a comment before or after the statement
            pieces += (self.sql[position:start], replacement)
            length += start - position + len(replacement)
            position = end
            if len(replacement) != end - start:
                shifts.append((length, position - self.first - length))
        pieces.append(self.sql[position : self.last])
        return "".join(pieces), tuple(shifts)


def _too_deep() -> SqlError:
    return SqlError(
        "54001", "stack depth limit exceeded", detail=f"At most {MAX_NESTING} levels of nesting are accepted."
    )


def _plain(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _unescape(body: str, start: int) -> str:
    """The value of the inside of an E'...' string."""

    def one(match: re.Match[str]) -> str:
        four, eight, hexadecimal, octal, letter = match.groups()
        if letter is not None:
            return _ESCAPE_LETTERS.get(letter, letter)
        if four or eight:
            code = int(four or eight, 16)
        elif hexadecimal or octal:
            code = int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF
            if code > 0x7F:  # a byte of UTF-8: put back together below
                return f"\x00{code:02x}"
        else:
            return "'"
        if code == 0 or code > 0x10FFFF or (0xD800 <= code < 0xE000 and not four):
            raise SqlError("22021", "invalid Unicode escape value", position=start + 1)
        return chr(code)

    value = _ESCAPES.sub(one, body)
    try:
        if "\x00" in value:
            raw = re.sub(rb"\x00(..)", lambda m: bytes([int(m.group(1), 16)]), value.encode("utf-8"))
            value = raw.decode("utf-8")
        elif not value.isascii():
            value = value.encode("utf-16", "surrogatepass").decode("utf-16")  # joins \ud83d\ude00
    except UnicodeError as error:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8"', position=start + 1) from error
    return value


_TOKEN = re.compile(
    r"""\s*(?: (?P<word>[^\W\d][\w$]*) | "(?P<ident>[^"]*(?:""[^"]*)*)" | '(?P<string>[^']*(?:''[^']*)*)'
        | (?P<number>[-+]?\d[\w.]*) | (?P<symbol>\S) )""",
    re.VERBOSE,
)

QualifiedName = tuple[str | None, str]
"""The schema, where one is said, and the name."""


class TokenCursor:
    """Walks over the tokens of a statement."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.tokens = list(_TOKEN.finditer(statement.clean))
        self.at = 1  # the first word is known

    def peek(self) -> str:
        """The next token in capitals; "" at the end; a quoted one keeps its quotes."""
        return self.tokens[self.at].group().strip().upper() if self.at < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        """Step over ``words`` if they come next."""
        mark = self.at
        for word in words:
            if self.peek() != word:
                self.at = mark
                return False
            self.at += 1
        return True

    def position(self) -> int:
        """The 1-based position of the next token in the whole text; at the end, of the end."""
        if self.at >= len(self.tokens):
            return self.statement.position(len(self.statement.clean))
        token = self.tokens[self.at]
        return self.statement.position(token.end() - len(token.group().lstrip()))

    def fail(self) -> SqlError:
        """The syntax error at the next token."""
        if self.at >= len(self.tokens):
            return self.statement.at_end()
        token = self.tokens[self.at]
        text = token.group().strip()
        if self.at and self.tokens[self.at - 1].group().strip().upper() == "PASSWORD":
            text = "<hidden>"  # it was meant to be one
        return SqlError(
            "42601",
            f'syntax error at or near "{text}"',
            position=self.statement.position(token.end() - len(token.group().lstrip())),
        )

    def done(self) -> None:
        """Raise unless everything was read."""
        if self.at < len(self.tokens):
            raise self.fail()

    def name(self) -> str:
        """An identifier, folded unless quoted."""
        if self.at >= len(self.tokens):
            raise self.fail()
        token = self.tokens[self.at]
        if token["ident"] is not None:
            found = str(token["ident"]).replace('""', '"')
        elif token["word"] is not None:
            found = str(token["word"]).lower()
        else:
            raise self.fail()
        self.at += 1
        return found

    def value(self) -> str:
        """A word, number or string, as text."""
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token["string"] is not None:
                self.at += 1
                return str(token["string"]).replace("''", "'")
            if token["number"] is not None:
                self.at += 1
                return str(token["number"])
        return self.name()

    def string(self) -> str:
        """A string in quotes."""
        if not self.peek().startswith("'"):
            raise self.fail()
        return self.value()

    def qualified_name(self) -> QualifiedName:
        """A name, perhaps with its schema."""
        name = self.name()
        return (name, self.name()) if self.accept(".") else (None, name)

    def qualified_names(self) -> tuple[QualifiedName, ...]:
        """Such names, with commas between them."""
        found = [self.qualified_name()]
        while self.accept(","):
            found.append(self.qualified_name())
        return tuple(found)

    def rest(self) -> Statement:
        """What follows as a statement of its own; the syntax error where nothing does."""
        if self.at >= len(self.tokens):
            raise self.fail()
        token, outer = self.tokens[self.at], self.statement
        keyword = token.group().lstrip()
        start = token.end() - len(keyword)
        text = outer.clean[start:]
        return Statement(text, text, outer.position(start) - 1, keyword.upper())
