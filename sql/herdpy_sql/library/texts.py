"""Functions of text: format, regular expressions that give arrays or rows, and smaller ones."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import Poly, Resolved, add, routine
from herdpy_sql.types import BOOLEAN, BYTEA, INTEGER, TEXT, Base, array_of
from herdpy_sql.values import to_text

_TEXTS = array_of(Base.TEXT)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_$]*")
_RESERVED = frozenset(
    [
        "all",
        "analyse",
        "analyze",
        "and",
        "any",
        "array",
        "as",
        "asc",
        "asymmetric",
        "both",
        "case",
        "cast",
        "check",
        "collate",
        "column",
        "constraint",
        "create",
        "current_catalog",
        "current_date",
        "current_role",
        "current_time",
        "current_timestamp",
        "current_user",
        "default",
        "deferrable",
        "desc",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "false",
        "fetch",
        "for",
        "foreign",
        "from",
        "grant",
        "group",
        "having",
        "in",
        "initially",
        "intersect",
        "into",
        "lateral",
        "leading",
        "limit",
        "localtime",
        "localtimestamp",
        "not",
        "null",
        "offset",
        "on",
        "only",
        "or",
        "order",
        "placing",
        "primary",
        "references",
        "returning",
        "select",
        "session_user",
        "some",
        "symmetric",
        "table",
        "then",
        "to",
        "trailing",
        "true",
        "union",
        "unique",
        "user",
        "using",
        "variadic",
        "when",
        "where",
        "window",
        "with",
    ]
)
_SPECIFIER = re.compile(r"%(?:(\d+)\$)?(-)?(\d+|\*(?:(\d+)\$)?)?([sIL%]|.|\Z)", re.DOTALL)


def quote_ident(name: str) -> str:
    """A name as SQL has it."""
    if _PLAIN_NAME.fullmatch(name) and name not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """A text as SQL has it."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"


add("quote_ident", (TEXT,), TEXT, quote_ident)
add("quote_literal", (TEXT,), TEXT, quote_literal)
add("quote_nullable", (TEXT,), TEXT, lambda v: "NULL" if v is None else quote_literal(v), strict=False)
add("bit_length", (TEXT,), INTEGER, lambda text: 8 * len(text.encode()))
add("bit_length", (BYTEA,), INTEGER, lambda data: 8 * len(data))
add("unistr", (TEXT,), TEXT, lambda text: text.encode().decode("unicode_escape") if "\\" in text else text)
add("normalize", (TEXT,), TEXT, lambda text: unicodedata.normalize("NFC", text))
add("pg_typeof", (Poly.ANY,), TEXT, lambda found, _: found.args[0].name, strict=False, typed=True)
add("num_nulls", (), INTEGER, lambda *v: sum(one is None for one in v), rest=Poly.ANY, strict=False)
add("num_nonnulls", (), INTEGER, lambda *v: sum(one is not None for one in v), rest=Poly.ANY, strict=False)


@routine("format", (TEXT,), TEXT, rest=Poly.ANY, strict=False, typed=True)
def _format(found: Resolved, form: str | None, *values: Any) -> str | None:
    if form is None:
        return None
    texts = [
        None if v is None else to_text(type_)(v) for type_, v in zip(found.args[1:], values, strict=True)
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
add("regexp_count", (TEXT, TEXT), INTEGER, lambda text, p: len(list(_compiled(p, "")[0].finditer(text))))
add(
    "regexp_substr", (TEXT, TEXT), TEXT,
    lambda text, p: m[0] if (m := _compiled(p, "")[0].search(text)) else None,
)  # fmt: skip
add("regexp_like", (TEXT, TEXT), BOOLEAN, lambda text, p: _compiled(p, "")[0].search(text) is not None)
add("regexp_like", (TEXT, TEXT, TEXT), BOOLEAN, lambda t, p, f: _compiled(p, f)[0].search(t) is not None)
