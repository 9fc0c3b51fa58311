"""The options of COPY: what each may be, and which go together.

Beside ``copying``. Rules, order of checks and messages: PostgreSQL 15, ProcessCopyOptions in
src/backend/commands/copy.c. The format "arrow", an Arrow IPC stream, is HerdPy's own and takes no
options, as "binary" takes none.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_sql.parse.copy_statement import CopyStatement, Option

FORMATS = ("text", "csv", "binary", "arrow")
_NOT_DELIMITERS = "\\.abcdefghijklmnopqrstuvwxyz0123456789"
_FORCES = ("force_quote", "force_not_null", "force_null")
_TRUE, _FALSE = ("true", "on", "1"), ("false", "off", "0")
# PostgreSQL's names of encodings that Python has by another.
_ENCODINGS = {"unicode": "utf-8", "utf8": "utf-8", "sql_ascii": "utf-8", "sqlascii": "utf-8"}


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How COPY's data is written.

    Attributes:
        format: "text", "csv", "binary" or "arrow".
        delimiter, quote, escape: one character each, of ASCII.
        null: the text that stands for NULL.
        header: "" for none, "on", or "match": it must name the columns.
        force_quote, force_not_null, force_null: places of columns among those copied.
        encoding: the Python codec that the data is in.
        encoding_name: the same as it was given.
    """

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: str = ""
    quote: str = '"'
    escape: str = '"'
    force_quote: frozenset[int] = frozenset()
    force_not_null: frozenset[int] = frozenset()
    force_null: frozenset[int] = frozenset()
    encoding: str = "utf-8"
    encoding_name: str = "UTF8"

    @property
    def is_binary(self) -> bool:
        """Whether the data is bytes and not text."""
        return self.format in {"binary", "arrow"}


def copy_options(statement: CopyStatement, places: Callable[[str, str], int], width: int) -> CopyOptions:
    """The options of a COPY of ``width`` columns; ``places`` finds a column by option and name.

    SqlError 42601, 22023, 0A000 for options that PostgreSQL refuses, 42703 and 42P10 for columns.
    """
    given = _by_name(statement.options)
    form = "text"
    if "format" in given:
        value, position = given["format"]
        form = _text("format", value)
        if form not in FORMATS:
            raise SqlError("22023", f'COPY format "{form}" not recognized', position=position)
    header = _header(*given["header"], is_from=statement.is_from) if "header" in given else ""
    for name in ("freeze",):
        if name in given:
            _boolean(name, given[name][0])
    encoding, encoding_name = "utf-8", "UTF8"
    if "encoding" in given:
        encoding_name = _text("encoding", given["encoding"][0])
        encoding = _codec(encoding_name, given["encoding"][1])
    texts: dict[str, str] = {
        name: _text(name, given[name][0])
        for name in ("delimiter", "null", "quote", "escape")
        if name in given
    }
    forces = {name: _list(name, *given[name]) for name in _FORCES if name in given}
    is_csv = form == "csv"
    if form in {"binary", "arrow"}:
        for name in ("delimiter", "null"):
            if name in given:
                raise SqlError("42601", f"cannot specify {name.upper()} in {form.upper()} mode")
        if "header" in given:
            raise SqlError("0A000", f"cannot specify HEADER in {form.upper()} mode")
    options = CopyOptions(
        format=form,
        delimiter=texts.get("delimiter", "," if is_csv else "\t"),
        null=texts.get("null", "" if is_csv else "\\N"),
        header=header,
        quote=texts.get("quote", '"'),
        escape=texts.get("escape", texts.get("quote", '"')),
        encoding=encoding,
        encoding_name=encoding_name,
    )
    _check_characters(options, texts)
    _check_forces(forces, is_csv=is_csv, is_from=statement.is_from)
    if options.delimiter in options.null:
        raise SqlError("0A000", "COPY delimiter must not appear in the NULL specification")
    if is_csv and options.quote in options.null:
        raise SqlError("0A000", "CSV quote character must not appear in the NULL specification")
    found = {}
    for name, columns in forces.items():
        everything = name == "force_quote" and columns == ("*",)
        found[name] = frozenset(range(width) if everything else (places(name, column) for column in columns))
    return CopyOptions(
        **{name: getattr(options, name) for name in CopyOptions.__slots__ if name not in _FORCES},
        force_quote=found.get("force_quote", frozenset()),
        force_not_null=found.get("force_not_null", frozenset()),
        force_null=found.get("force_null", frozenset()),
    )


def _by_name(options: Iterable[tuple[str, Option, int]]) -> dict[str, tuple[Option, int]]:
    known = {"format", "freeze", "delimiter", "null", "header", "quote", "escape", "encoding", *_FORCES}
    given: dict[str, tuple[Option, int]] = {}
    for name, value, position in options:
        if name not in known:
            raise SqlError("42601", f'option "{name}" not recognized', position=position)
        if name in given:
            raise SqlError("42601", "conflicting or redundant options", position=position)
        given[name] = value, position
    return given


def _text(name: str, value: Option) -> str:
    if value is None:
        raise SqlError("42601", f"{name} requires a parameter")
    return value if isinstance(value, str) else ", ".join(value)


def _list(name: str, value: Option, position: int) -> tuple[str, ...]:
    if value is None or isinstance(value, str) or (value == ("*",) and name != "force_quote"):
        raise SqlError(
            "22023", f'argument to option "{name}" must be a list of column names', position=position
        )
    return value


def _boolean(name: str, value: Option) -> bool:
    if value is None:
        return True
    word = value.lower() if isinstance(value, str) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise SqlError("42601", f"{name} requires a Boolean value")


def _header(value: Option, position: int, *, is_from: bool) -> str:
    del position
    if isinstance(value, str) and value.lower() == "match":
        if not is_from:
            raise SqlError("0A000", 'cannot use "match" with HEADER in COPY TO')
        return "match"
    try:
        return "on" if _boolean("header", value) else ""
    except SqlError:
        raise SqlError("42601", 'header requires a Boolean value or "match"') from None


def _codec(name: str, position: int) -> str:
    try:
        return codecs.lookup(_ENCODINGS.get(name.lower().replace("-", ""), name.replace("win", "cp"))).name
    except LookupError:
        raise SqlError(
            "22023", 'argument to option "encoding" must be a valid encoding name', position=position
        ) from None


def _check_characters(options: CopyOptions, texts: dict[str, str]) -> None:
    is_csv = options.format == "csv"
    if len(options.delimiter.encode()) != 1:
        raise SqlError("0A000", "COPY delimiter must be a single one-byte character")
    if options.delimiter in "\r\n":
        raise SqlError("22023", "COPY delimiter cannot be newline or carriage return")
    if "\r" in options.null or "\n" in options.null:
        raise SqlError("22023", "COPY null representation cannot use newline or carriage return")
    if not is_csv and options.delimiter in _NOT_DELIMITERS:
        raise SqlError("22023", f'COPY delimiter cannot be "{options.delimiter}"')
    if not is_csv and "quote" in texts:
        raise SqlError("0A000", "COPY quote available only in CSV mode")
    if is_csv and len(options.quote.encode()) != 1:
        raise SqlError("0A000", "COPY quote must be a single one-byte character")
    if is_csv and options.delimiter == options.quote:
        raise SqlError("22023", "COPY delimiter and quote must be different")
    if not is_csv and "escape" in texts:
        raise SqlError("0A000", "COPY escape available only in CSV mode")
    if is_csv and len(options.escape.encode()) != 1:
        raise SqlError("0A000", "COPY escape must be a single one-byte character")


def _check_forces(forces: dict[str, tuple[str, ...]], *, is_csv: bool, is_from: bool) -> None:
    for name in _FORCES:
        if name not in forces:
            continue
        words = name.replace("_", " ")
        if not is_csv:
            raise SqlError("0A000", f"COPY {words} available only in CSV mode")
        if is_from == (name == "force_quote"):
            direction = "FROM" if name != "force_quote" else "TO"
            raise SqlError("0A000", f"COPY {words} only available using COPY {direction}")
