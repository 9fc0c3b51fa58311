"""Functions of text: letters, parts, padding; format; regular expressions that give arrays or rows."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from herdpy_sql.clock import Clock
from herdpy_sql.duck import BY_LIBRARY, Typed, cast_text, constant_text, is_beyond_duck, padded, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.casts import cast_function
from herdpy_sql.library.routine import Poly, Resolved, add, routine
from herdpy_sql.quoting import quote_ident
from herdpy_sql.types import BIGINT, BOOLEAN, BYTEA, INTEGER, TEXT, Base, SqlType, array_of
from herdpy_sql.values import letter_case, to_text
from herdpy_sql.values.reg_types import reg_value
from herdpy_sql.values.styled import writer

_TEXTS = array_of(Base.TEXT)
_REGTYPE = SqlType(Base.REGTYPE)
_SPECIFIER = re.compile(r"%(?:(\d+)\$)?(-)?(\d+|\*(?:(\d+)\$)?)?([sIL%]|.|\Z)", re.DOTALL)


_LONGEST = 256 * 1024 * 1024


def _right(text: str, count: int) -> str:
    if count < 0:
        return text[-count:]
    return text[len(text) - count :] if count < len(text) else text


def _repeat(text: str, count: int) -> str:
    if count > 0 and len(text) * count > _LONGEST:
        raise SqlError("54000", "requested length too large")
    return text * count


def _pad(text: str, length: int, fill: str, *, left: bool) -> str:
    if length > _LONGEST:
        raise SqlError("54000", "requested length too large")
    length = max(length, 0)
    missing = length - len(text)
    if missing <= 0 or not fill:
        return text[:length]
    padding = (fill * (missing // len(fill) + 1))[:missing]
    return padding + text if left else text + padding


def _replace(text: str, old: str, new: str) -> str:
    if old and len(new) > len(old) and len(text) + text.count(old) * len(new) > _LONGEST:
        raise SqlError("54000", "requested length too large")
    return text.replace(old, new) if old else text


def _chr(code: int) -> str:
    if code == 0:
        raise SqlError("54000", "null character not permitted")
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise SqlError("54000", f"requested character too large for encoding: {code}")
    return chr(code)


def split_part(text: str, separator: str, place: int) -> str:
    """The field at ``place``, from the end when negative; SqlError 22023 for zero."""
    if place == 0:
        raise SqlError("22023", "field position must not be zero")
    parts = text.split(separator) if separator else [text]
    if not text or abs(place) > len(parts):
        return ""
    return parts[place - 1 if place > 0 else place]


def translate(text: str, source: str, target: str) -> str:
    """Characters of ``source`` become those of ``target``, or vanish where it is shorter."""
    table: dict[int, int | None] = {}
    for i, char in enumerate(source):
        table.setdefault(ord(char), ord(target[i]) if i < len(target) else None)
    return text.translate(table)


def _overlay(text: str, new: str, start: int, length: int | None = None) -> str:
    if start <= 0:
        raise SqlError("22011", "negative substring length not allowed")
    rest = start - 1 + (len(new) if length is None else length)
    return text[: start - 1] + new + text[max(rest, 0) :]


def _strip(strip: Callable[[str, str], str]) -> Callable[[str, str], str]:
    """PostgreSQL takes off nothing where no letters are named; Python takes off blanks."""

    def run(text: str, letters: str = " ") -> str:
        return strip(text, letters) if letters else text

    return run


def _place(text: str, part: str) -> int:
    return text.find(part) + 1


def _hex(bits: int) -> Callable[[int], str]:
    """Digits of an integer of so many bits, of a negative one those of its two's complement."""
    return lambda value: f"{value & ((1 << bits) - 1):x}"


_LEFT_PAD, _RIGHT_PAD = partial(_pad, left=True), partial(_pad, left=False)
_COUNT = (TEXT, INTEGER)
for _name, _args, _result, _call, _duck in (
    ("upper", (TEXT,), TEXT, letter_case.upper, "pg_upper({0})"),
    ("lower", (TEXT,), TEXT, letter_case.lower, "pg_lower({0})"),
    ("initcap", (TEXT,), TEXT, letter_case.initcap, "pg_initcap({0})"),
    ("length", (TEXT,), INTEGER, len, "CAST(length({0}) AS INTEGER)"),
    ("char_length", (TEXT,), INTEGER, len, "CAST(length({0}) AS INTEGER)"),
    ("character_length", (TEXT,), INTEGER, len, "CAST(length({0}) AS INTEGER)"),
    ("length", (BYTEA,), INTEGER, len, "CAST(octet_length({0}) AS INTEGER)"),
    ("left", _COUNT, TEXT, lambda text, count: text[:count], "pg_left({0}, {1})"),
    ("right", _COUNT, TEXT, _right, "pg_right({0}, {1})"),
    ("repeat", _COUNT, TEXT, _repeat, "pg_repeat({0}, {1})"),
    ("replace", (TEXT, TEXT, TEXT), TEXT, _replace, "pg_replace({0}, {1}, {2})"),
    ("translate", (TEXT, TEXT, TEXT), TEXT, translate, "pg_translate({0}, {1}, {2})"),
    ("reverse", (TEXT,), TEXT, lambda text: text[::-1], "pg_reverse({0})"),
    ("split_part", (TEXT, TEXT, INTEGER), TEXT, split_part, "pg_split_part({0}, {1}, {2})"),
    (
        "strpos",
        (TEXT, TEXT),
        INTEGER,
        lambda text, part: text.find(part) + 1,
        "CAST(strpos({0}, {1}) AS INTEGER)",
    ),
    ("starts_with", (TEXT, TEXT), BOOLEAN, str.startswith, "starts_with({0}, {1})"),
    ("chr", (INTEGER,), TEXT, _chr, "pg_chr({0})"),
    ("ascii", (TEXT,), INTEGER, lambda text: ord(text[0]) if text else 0, "pg_ascii({0})"),
    ("lpad", _COUNT, TEXT, partial(_LEFT_PAD, fill=" "), "pg_lpad({0}, {1}, ' ')"),
    ("lpad", (TEXT, INTEGER, TEXT), TEXT, _LEFT_PAD, "pg_lpad({0}, {1}, {2})"),
    ("rpad", _COUNT, TEXT, partial(_RIGHT_PAD, fill=" "), "pg_rpad({0}, {1}, ' ')"),
    ("rpad", (TEXT, INTEGER, TEXT), TEXT, _RIGHT_PAD, "pg_rpad({0}, {1}, {2})"),
    ("btrim", (TEXT,), TEXT, _strip(str.strip), "trim({0}, ' ')"),
    ("btrim", (TEXT, TEXT), TEXT, _strip(str.strip), "trim({0}, {1})"),
    ("ltrim", (TEXT,), TEXT, _strip(str.lstrip), "ltrim({0}, ' ')"),
    ("ltrim", (TEXT, TEXT), TEXT, _strip(str.lstrip), "ltrim({0}, {1})"),
    ("rtrim", (TEXT,), TEXT, _strip(str.rstrip), "rtrim({0}, ' ')"),
    ("rtrim", (TEXT, TEXT), TEXT, _strip(str.rstrip), "rtrim({0}, {1})"),
    ("overlay", (TEXT, TEXT, INTEGER), TEXT, _overlay, "pg_overlay({0}, {1}, {2}, length({1}))"),
    ("overlay", (TEXT, TEXT, INTEGER, INTEGER), TEXT, _overlay, "pg_overlay({0}, {1}, {2}, {3})"),
    (
        "to_hex",
        (INTEGER,),
        TEXT,
        lambda value: f"{value & 0xFFFFFFFF:x}",
        "lower(to_hex(CAST({0} AS BIGINT) & 4294967295))",
    ),
    ("to_hex", (BIGINT,), TEXT, _hex(64), "lower(to_hex({0}))"),
):
    add(_name, _args, _result, _call, duck=_duck)


def quote_literal(text: str) -> str:
    """A text as SQL has it."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"


add("quote_ident", (TEXT,), TEXT, quote_ident)


@routine("quote_literal", (Poly.ANY,), TEXT, typed=True, clocked=True)
def _quoted(found: Resolved, clock: Clock, value: Any) -> str:
    text = cast_function(found.args[0], TEXT, explicit=True)
    if text is None:
        return quote_literal(str(value))
    return quote_literal(str(text.implementation(*((clock, value) if text.needs_clock else (value,)))))


@routine("quote_nullable", (Poly.ANY,), TEXT, typed=True, clocked=True, strict=False)
def _quoted_nullable(found: Resolved, clock: Clock, value: Any) -> str:
    return "NULL" if value is None else _quoted(found, clock, value)


# ---------------------------------------------------------------------------- lengths and parts

_BLANKS = SqlType(Base.CHAR)


def _padded_length(found: Resolved, text: str) -> int:
    """Of CHAR(n), which is held without its trailing blanks."""
    return len(text.encode()) + max((found.args[0].length or 0) - len(text), 0)


def _duck_padded_length(x: Typed) -> Typed:
    blanks = f"greatest({x.type.length or 0} - length({x.sql}), 0)"
    return typed(f"CAST(strlen({x.sql}) + {blanks} AS INTEGER)", INTEGER, x)


add("octet_length", (TEXT,), INTEGER, lambda text: len(text.encode()), duck="CAST(strlen({0}) AS INTEGER)")
add("octet_length", (BYTEA,), INTEGER, len, duck="CAST(octet_length({0}) AS INTEGER)")
add("octet_length", (_BLANKS,), INTEGER, _padded_length, typed=True, duck=_duck_padded_length)


def _part(text: Any, start: int, length: int | None = None) -> Any:
    """substring() by places, of text or bytes."""
    if length is None:
        return text[max(start - 1, 0) :]
    if length < 0:
        raise SqlError("22011", "negative substring length not allowed")
    end = start - 1 + length
    return text[max(start - 1, 0) : max(end, 0)]


def _duck_part(x: Typed, *places: Typed) -> Typed:
    plain = [one.literal for one in places if one.literal and one.literal.isdigit()]
    if len(plain) == len(places) and plain[0].strip("0"):
        return typed(f"substring({x.sql}, {', '.join(plain)})", TEXT, x, *places)
    macro = {1: "pg_substring_from", 2: "pg_substring"}[len(places)]
    wide = ", ".join(f"CAST({one.sql} AS BIGINT)" for one in places)
    return typed(f"{macro}({x.sql}, {wide})", TEXT, x, *places)


def _within_duck(template: str, result: SqlType) -> Callable[..., Typed | None]:
    """DuckDB's text of a function of a text and a pattern, unless the pattern is beyond DuckDB's."""

    def make(x: Typed, pattern: Typed, *rest: Typed) -> Typed | None:
        if is_beyond_duck(constant_text(pattern) or ""):
            return None
        args = (x, pattern, *rest)
        return typed(template.format(*(arg.sql for arg in args)), result, *args)

    return make


def _duck_match(x: Typed, pattern: Typed) -> Typed | None:
    """What a pattern without groups matches; of another the first group is meant, which may match nothing."""
    known = constant_text(pattern)
    if known is None or "(" in known or is_beyond_duck(known):
        return None
    found = f"regexp_extract({x.sql}, {pattern.sql}, 0, 's')"
    return typed(f"CASE WHEN regexp_matches({x.sql}, {pattern.sql}, 's') THEN {found} END", TEXT, x, pattern)


for _name in ("substring", "substr"):
    for _counts in ((INTEGER,), (INTEGER, INTEGER)):
        add(_name, (TEXT, *_counts), TEXT, _part, duck=_duck_part)
        add(_name, (BYTEA, *_counts), BYTEA, _part)
add(
    "substring", (TEXT, TEXT, TEXT), TEXT, _part,
    refused="substring by a pattern with an escape is not supported",
)  # fmt: skip

add("bit_length", (TEXT,), INTEGER, lambda text: 8 * len(text.encode()))
add("bit_length", (BYTEA,), INTEGER, lambda data: 8 * len(data))


_UNICODE_ESCAPE = re.compile(
    r"\\(?:(\\)|([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|)"
)


def _unistr(text: str) -> str:
    """The text with its Unicode escapes read, as PostgreSQL writes them. SqlError 42601, 22023."""

    def character(found: re.Match[str]) -> str:
        if found[1]:
            return "\\"
        digits = found[2] or found[3] or found[4] or found[5]
        if not digits:
            hint = "Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX."
            raise SqlError("42601", "invalid Unicode escape", hint=hint)
        code = int(digits, 16)
        if code == 0 or code > 0x10FFFF:
            raise SqlError("22023", f"invalid Unicode code point: {code:04X}")
        return chr(code)

    found = _UNICODE_ESCAPE.sub(character, text)
    try:
        return found.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise SqlError("42601", "invalid Unicode surrogate pair") from error


def _typeof(found: Resolved, _: object) -> str:
    """The type of an argument as a REGTYPE."""
    return reg_value(found.args[0].oid, found.args[0].name)


add("unistr", (TEXT,), TEXT, _unistr)
add("normalize", (TEXT,), TEXT, lambda text: unicodedata.normalize("NFC", text))
add("pg_typeof", (Poly.ANY,), _REGTYPE, _typeof, strict=False, typed=True)
add("num_nulls", (), INTEGER, lambda *v: sum(one is None for one in v), rest=Poly.ANY, strict=False)
add("num_nonnulls", (), INTEGER, lambda *v: sum(one is not None for one in v), rest=Poly.ANY, strict=False)


# ---------------------------------------------------------------------------- concat


@functools.lru_cache(maxsize=1024)
def _writers(types: tuple[SqlType, ...]) -> list[tuple[Callable[..., Any], bool]]:
    """What gives the output form of values of these types, and whether it needs the clock.

    Of BOOLEAN, CHAR and INET that is not their cast to TEXT.
    """
    found: list[tuple[Callable[..., Any], bool]] = []
    for type_ in types:
        plain = type_.base in {Base.BOOLEAN, Base.CHAR, Base.INET}
        function = None if plain else cast_function(type_, TEXT, explicit=True)
        if plain:
            found.append((to_text(type_), False))
        elif function is None:
            found.append((str, False))
        else:
            found.append((function.implementation, function.needs_clock))
    return found


def _written(found: Resolved, clock: Clock, values: Sequence[Any]) -> list[str]:
    """The texts of those that are not NULL."""
    types = found.args[len(found.args) - len(values) :]
    return [
        write(clock, value) if clocked else write(value)
        for (write, clocked), value in zip(_writers(types), values, strict=True)
        if value is not None
    ]


def _duck_written(x: Typed) -> str | None:
    if x.array or x.base in BY_LIBRARY:
        return None
    if x.base is Base.BOOLEAN:
        return f"CASE {x.sql} WHEN true THEN 't' WHEN false THEN 'f' END"
    return padded(x).sql if x.base is Base.CHAR else cast_text(x)


def _duck_concat(*parts: Typed) -> Typed | None:
    texts = [_duck_written(x) for x in parts]
    if None in texts:
        return None
    return typed(" || ".join(["(''", *(f"coalesce({one}, '')" for one in texts)]) + ")", TEXT, *parts)


def _duck_concat_ws(separator: Typed, *parts: Typed) -> Typed | None:
    texts = [_duck_written(x) for x in parts]
    if None in texts:
        return None
    return typed(f"concat_ws({', '.join([separator.sql, *map(str, texts)])})", TEXT, separator, *parts)


_ANY = {"rest": Poly.ANY, "strict": False, "typed": True, "clocked": True}


@routine("concat", (Poly.ANY,), TEXT, duck=_duck_concat, **_ANY)
def _concat(found: Resolved, clock: Clock, *values: Any) -> str:
    return "".join(_written(found, clock, values))


@routine("concat_ws", (TEXT, Poly.ANY), TEXT, duck=_duck_concat_ws, **_ANY)
def _concat_ws(found: Resolved, clock: Clock, separator: str | None, *values: Any) -> str | None:
    return None if separator is None else separator.join(_written(found, clock, values))


@routine("format", (TEXT,), TEXT, rest=Poly.ANY, strict=False, typed=True, clocked=True)
def _format(found: Resolved, clock: Clock, form: str | None, *values: Any) -> str | None:
    if form is None:
        return None
    texts = [
        None if v is None else writer(type_, clock.style)(v)
        for type_, v in zip(found.args[1:], values, strict=True)
    ]
    state = {"next": 0}

    def take(place: str | None) -> str | None:
        at = int(place) - 1 if place else state["next"]
        if at < 0:
            raise SqlError("22023", "format specifies argument 0, but arguments are numbered from 1")
        state["next"] = at + 1
        if at >= len(texts):
            raise SqlError("22023", "too few arguments for format()")
        return texts[at]

    def one(match: re.Match[str]) -> str:
        place, left, width, width_place, letter = match.groups()
        if letter == "%":
            return "%"
        if not letter:
            raise SqlError("22023", "unterminated format() type specifier")
        if letter not in "sIL":
            raise SqlError("22023", f'unrecognized format() type specifier "{letter}"')
        size = 0
        if width:
            size = int((take(width_place) or "0") if width[0] == "*" else width)
        value = take(place)
        if letter == "I":
            if value is None:
                raise SqlError("22004", "null values cannot be formatted as an SQL identifier")
            shown = quote_ident(value)
        elif letter == "L":
            shown = "NULL" if value is None else quote_literal(value)
        else:
            shown = value or ""
        return shown.ljust(abs(size)) if left or size < 0 else shown.rjust(size)

    return _SPECIFIER.sub(one, form)


# ---------------------------------------------------------------------------- regular expressions

_OPTIONS = {"i": re.IGNORECASE, "s": re.DOTALL, "n": re.MULTILINE, "m": re.MULTILINE, "x": re.VERBOSE}


def _compiled(pattern: str, flags: str) -> tuple[re.Pattern[str], bool]:
    """The expression, in Python's words, and whether it is wanted everywhere."""
    options, everywhere = re.DOTALL, False
    for letter in flags:
        if letter == "g":
            everywhere = True
        elif letter in "nm":
            options = (options | re.MULTILINE) & ~re.DOTALL
        elif letter == "c":
            options &= ~re.IGNORECASE
        elif letter in _OPTIONS:
            options |= _OPTIONS[letter]
        elif letter != "e":
            raise SqlError("22023", f'invalid regular expression option: "{letter}"')
    pattern = re.sub(
        r"\\([mMyAZ])",
        lambda m: {"m": r"\b(?=\w)", "M": r"\b(?<=\w)", "y": r"\b", "A": r"\A", "Z": r"\Z"}[m[1]],
        pattern,
    )
    for name, inside in (
        ("alpha", "a-zA-Z"),
        ("digit", "0-9"),
        ("alnum", "a-zA-Z0-9"),
        ("space", r"\s"),
        ("upper", "A-Z"),
        ("lower", "a-z"),
        ("punct", r"!-/:-@\[-`{-~"),
        ("xdigit", "0-9A-Fa-f"),
    ):
        pattern = pattern.replace(f"[:{name}:]", inside)
    try:
        return re.compile(pattern, options), everywhere
    except re.error as error:
        raise SqlError("2201B", f"invalid regular expression: {error}") from None


def _groups(match: re.Match[str]) -> tuple[str | None, ...]:
    return match.groups() or (match[0],)


def _match(text: str, pattern: str, flags: str = "") -> Any:
    found, everywhere = _compiled(pattern, flags)
    if everywhere:
        raise SqlError(
            "22023",
            'regexp_match() does not support the "global" option',
            hint="Use the regexp_matches function instead.",
        )
    match = found.search(text)
    return None if match is None else _groups(match)


@routine("substring", (TEXT, TEXT), TEXT, duck=_duck_match)
def _substring(text: str, pattern: str) -> str | None:
    """The match, or what its first group matched: NULL where that is not a part of the match."""
    match = _compiled(pattern, "")[0].search(text)
    return None if match is None else _groups(match)[0]


def _matches(text: str, pattern: str, flags: str = "") -> Any:
    found, everywhere = _compiled(pattern, flags)
    all_of = found.finditer(text) if everywhere else ([m] if (m := found.search(text)) else [])
    return tuple([_groups(match) for match in all_of])


def _split(text: str, pattern: str, flags: str = "") -> Any:
    found, everywhere = _compiled(pattern, flags)
    if everywhere:
        raise SqlError("22023", 'regexp_split_to_array() does not support the "global" option')
    parts, at = [], 0
    for match in found.finditer(text):
        if match.end() == match.start() and (match.start() == at or match.start() == len(text)):
            continue
        parts.append(text[at : match.start()])
        at = match.end()
    return (*parts, text[at:])


for _name, _function, _result, _setof in (
    ("regexp_match", _match, _TEXTS, False),
    ("regexp_matches", _matches, _TEXTS, True),
    ("regexp_split_to_array", _split, _TEXTS, False),
    ("regexp_split_to_table", _split, TEXT, True),
):
    add(_name, (TEXT, TEXT), _result, _function, setof=_setof)
    add(_name, (TEXT, TEXT, TEXT), _result, _function, setof=_setof)


def _found_from(text: str, pattern: str, start: int, flags: str, name: str) -> list[re.Match[str]]:
    """All matches from the character ``start`` on. SqlError 22023."""
    if start <= 0:
        raise SqlError("22023", f'invalid value for parameter "start": {start}')
    found, everywhere = _compiled(pattern, flags)
    if everywhere:
        raise SqlError("22023", f'{name}() does not support the "global" option')
    return list(found.finditer(text, start - 1)) if start <= len(text) + 1 else []


def _count(text: str, pattern: str, start: int = 1, flags: str = "") -> int:
    return len(_found_from(text, pattern, start, flags, "regexp_count"))


def _positive(name: str, value: int, least: int = 1) -> int:
    if value < least:
        raise SqlError("22023", f'invalid value for parameter "{name}": {value}')
    return value


def _substr(
    text: str, pattern: str, start: int = 1, number: int = 1, flags: str = "", group: int = 0
) -> str | None:
    _positive("start", start), _positive("n", number), _positive("subexpr", group, 0)
    found = _found_from(text, pattern, start, flags, "regexp_substr")
    if len(found) < number or group > found[number - 1].re.groups:
        return None
    return found[number - 1][group]


def _instr(
    text: str, pattern: str, start: int = 1, number: int = 1, end: int = 0, flags: str = "", group: int = 0
) -> int:
    _positive("start", start), _positive("n", number)
    if end not in (0, 1):
        raise SqlError("22023", f'invalid value for parameter "endoption": {end}')
    _positive("subexpr", group, 0)
    found = _found_from(text, pattern, start, flags, "regexp_instr")
    if len(found) < number or group > found[number - 1].re.groups:
        return 0
    return found[number - 1].span(group)[end] + 1


def _replace_matches(text: str, pattern: str, new: str, flags: str = "") -> str:
    """The first of them, or all where the flags say "g"."""
    return _replace_from(text, pattern, new, 1, 0 if "g" in flags else 1, flags)


def _replace_from(text: str, pattern: str, new: str, start: int, number: int = 1, flags: str = "") -> str:
    """``number`` 0 means all of them; "g" is of no meaning beside it."""
    _positive("start", start), _positive("n", number, 0)
    found = _found_from(text, pattern, start, flags.replace("g", ""), "regexp_replace")
    chosen = found if number == 0 else found[number - 1 : number]
    parts, at = [], 0
    for match in chosen:
        parts += [text[at : match.start()], _REFERENCE.sub(partial(_referred, match), new)]
        at = match.end()
    return "".join([*parts, text[at:]])


def _referred(match: re.Match[str], mark: re.Match[str]) -> str:
    """What a mark in a replacement stands for."""
    letter = mark[1]
    if letter == "&":
        return match[0]
    if letter.isdigit():
        return (match[int(letter)] or "") if 0 < int(letter) <= match.re.groups else ""
    return "\\" if letter == "\\" else mark[0]


_REFERENCE = re.compile(r"\\(.)", re.DOTALL)
_SHAPE = (TEXT, TEXT, INTEGER, INTEGER, TEXT, INTEGER)
for _places in range(2, 7):
    add("regexp_substr", _SHAPE[:_places], TEXT, _substr)
for _shape in ((TEXT, TEXT), (TEXT, TEXT, INTEGER), (TEXT, TEXT, INTEGER, TEXT)):
    add("regexp_count", _shape, INTEGER, _count)
_SHAPE_OF_INSTR = (TEXT, TEXT, INTEGER, INTEGER, INTEGER, TEXT, INTEGER)
for _places in range(2, 8):
    add("regexp_instr", _SHAPE_OF_INSTR[:_places], INTEGER, _instr)
_SHAPE_OF_REPLACE = (TEXT, TEXT, TEXT, INTEGER, INTEGER, TEXT)
add(
    "regexp_replace", _SHAPE_OF_REPLACE[:3], TEXT, _replace_matches,
    duck=_within_duck("regexp_replace({0}, {1}, pg_replacement({2}), 's')", TEXT),
)  # fmt: skip
add(
    "regexp_replace", (TEXT, TEXT, TEXT, TEXT), TEXT, _replace_matches,
    duck=_within_duck("pg_regexp_replace({0}, {1}, {2}, {3})", TEXT),
)  # fmt: skip
for _places in range(4, 7):
    add("regexp_replace", _SHAPE_OF_REPLACE[:_places], TEXT, _replace_from)
add(
    "regexp_like", (TEXT, TEXT), BOOLEAN, lambda text, p: _compiled(p, "")[0].search(text) is not None,
    duck=_within_duck("regexp_matches({0}, {1}, 's')", BOOLEAN),
)  # fmt: skip
add("regexp_like", (TEXT, TEXT, TEXT), BOOLEAN, lambda t, p, f: _compiled(p, f)[0].search(t) is not None)

_BETWEEN_QUOTES = re.compile(r'[ \t-\r"\\(),]')


@routine("row_as_text", (), TEXT, rest=Poly.ANY, strict=False, typed=True, clocked=True)
def _row_as_text(found: Resolved, clock: Clock, *values: Any) -> str:
    """A row as PostgreSQL's record_out writes it: NULL is nothing, what would be read otherwise is quoted."""
    shown = []
    for type_, value in zip(found.args, values, strict=True):
        text = "" if value is None else writer(type_, clock.style)(value)
        if value is not None and (not text or _BETWEEN_QUOTES.search(text)):
            text = '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
        shown.append(text)
    return f"({','.join(shown)})"
