"""What commands show: a result as a table, CSV, JSON, JSON lines or Arrow; and the bar of long work."""

from __future__ import annotations

import enum
import json
import math
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from time import perf_counter
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from herdpy.cli.errors import CliError
from herdpy.cli.extras import needed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.text import Text


class Bar:
    """A progress bar on standard error; silent where that is no terminal.

    Args:
        what: the line's title.
        unit: what the count beside the bar counts.
        transient: it goes from the terminal when the work is done.
    """

    def __init__(self, what: str, unit: str = "rows", *, transient: bool = False) -> None:
        self._what = what
        self._unit = unit
        self._transient = transient
        self._began = perf_counter()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._began = perf_counter()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(),
                console=Console(file=sys.stderr),
                transient=self._transient,
            )
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=None, text="")
        return self

    def update(self, done: float, total: float | None, count: int) -> None:
        """Show that ``done`` of ``total`` is done, and ``count`` things by now."""
        if self._progress is not None:
            rate = count / max(self.seconds, 1e-6)
            self.show(done, total, f"{count:,} {self._unit}, {rate:,.0f}/s")

    def show(self, done: float, total: float | None, text: str) -> None:
        """Show that ``done`` of ``total`` (None: it is not known) is done, and ``text`` beside the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total, text=text)

    def note(self, line: str) -> None:
        """Show a line that stays above the bar."""
        if self._progress is not None:
            self._progress.console.print(line, highlight=False)

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return perf_counter() - self._began

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def speed(count: int, seconds: float) -> str:
    """``count`` rows in ``seconds`` as people read it."""
    return f"{count:,} rows in {seconds:.1f} s ({count / max(seconds, 1e-9):,.0f} rows/s)"


ToText = Callable[[Any], str]
_CHUNK = 5_000
_UNLIMITED = 1_000_000
_NUMERIC_OIDS = {20, 21, 23, 700, 701, 1700}
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_CSV_SPECIAL = re.compile(r'[",\r\n]|^\s|\s$').search


class JsonText(str):
    """The text of a JSON value, which stands in JSON as it is."""

    __slots__ = ()


def to_text(value: object) -> str:
    """Return a value that is not None as PostgreSQL's text (booleans spelled out)."""
    return _TEXT.get(type(value), _other_text)(value)


def to_json(value: object) -> str:
    """Return a value, None too, as JSON text on one line."""
    return _JSON.get(type(value), _other_json)(value)


def json_object(names: Sequence[str], values: Sequence[object]) -> str:
    """Return ``{"name": value, ...}``; ``names`` are JSON strings already (see :func:`json_names`)."""
    pairs = [f"{name}{to_json(value)}" for name, value in zip(names, values, strict=True)]
    return "{" + ", ".join(pairs) + "}"


def json_names(names: Sequence[str]) -> list[str]:
    """Return the keys of :func:`json_object`: quoted, with their colon."""
    return [f"{json.dumps(name, ensure_ascii=False)}: " for name in names]


def shortest_real(value: float) -> str:
    """Return the fewest digits that read back as the same 32-bit float."""
    if not math.isfinite(value):
        return _float_text(value)
    for digits in range(6, 9):
        text = f"{value:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
            return text
    return f"{value:.9g}"


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).removesuffix(".0")


def _float_json(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'"{_float_text(value)}"'


def _decimal_json(value: Decimal) -> str:
    return format(value, "f") if value.is_finite() else f'"{value}"'


def _timestamp_text(value: datetime) -> str:
    text = value.isoformat(sep=" ")
    return text.removesuffix(":00") if value.tzinfo is not None else text


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _string_json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _bytes_text(value: bytes) -> str:
    return "\\x" + bytes(value).hex()


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=to_text)


def _other_text(value: object) -> str:
    if isinstance(value, datetime):
        return _timestamp_text(value)
    if isinstance(value, (dict, list, tuple)):
        return _compact(value)
    return str(value)


def _other_json(value: object) -> str:
    if isinstance(value, (dict, list, tuple)):
        return _compact(value)
    return _string_json(to_text(value))


_TEXT: dict[type, ToText] = {
    str: str,
    JsonText: str,
    int: str,
    bool: _bool_text,
    float: _float_text,
    Decimal: lambda value: format(value, "f"),
    bytes: _bytes_text,
    bytearray: _bytes_text,
    memoryview: _bytes_text,
    datetime: _timestamp_text,
    date: date.isoformat,
    time: time.isoformat,
}
_JSON: dict[type, ToText] = {
    type(None): lambda value: "null",
    str: _string_json,
    JsonText: str,
    int: str,
    bool: _bool_text,
    float: _float_json,
    Decimal: _decimal_json,
}


_SPECIAL: dict[int | None, Callable[[Any], object]] = {
    700: lambda value: float(shortest_real(value)),
    114: lambda value: JsonText(to_json(value)),
}


class Format(enum.StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    ARROW = "arrow"


def write_result(
    cursor: Any, format: Format, out: IO[str], *, header: bool = True, expanded: bool = False, limit: int = 0
) -> int:
    """Write the rows that ``cursor`` has to give; returns how many there were.

    Args:
        header: whether tables and CSV have a line with the columns' names.
        expanded: one line a column instead of one line a row (tables only).
        limit: show no more than this many rows of a table, and say how many there were; 0 is all.
    """
    if format is Format.ARROW:
        return _write_arrow(cursor, out)
    names = [column[0] for column in cursor.description]
    rows = _rows(cursor)
    match format:
        case Format.TABLE:
            found = list(rows)
            shown = found[:limit] if limit else found
            write_table(names, shown, out, header=header, expanded=expanded, numeric=_numeric(cursor))
            return len(found)
        case Format.CSV:
            return write_csv(names, rows, out, header=header)
        case Format.JSON:
            return write_json(names, rows, out)
        case _:
            return write_jsonl(names, rows, out)


def write_table(
    names: Sequence[str],
    rows: Sequence[Sequence[object]],
    out: IO[str],
    *,
    header: bool = True,
    expanded: bool = False,
    numeric: Sequence[bool] = (),
) -> None:
    """Write rows as a table; NULL is empty, as an empty string is; ``--format csv`` distinguishes them."""
    from rich import box
    from rich.table import Table

    console = console_for(out)
    if expanded:
        for number, row in enumerate(rows, 1):
            table = Table(box=box.SIMPLE, show_header=False, title=f"row {number}", title_justify="left")
            table.add_column(no_wrap=True)
            table.add_column(overflow="fold")
            for name, value in zip(names, row, strict=True):
                table.add_row(_cell(name), _cell(value))
            console.print(table)
        return
    if not names:
        return
    right = list(numeric) or [_looks_numeric(row[i] for row in rows) for i in range(len(names))]
    table = Table(box=box.ROUNDED if console.is_terminal else box.SQUARE, show_header=header)
    for name, to_right in zip(names, right, strict=True):
        table.add_column(_cell(name), justify="right" if to_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    console.print(table)


def write_csv(
    names: Sequence[str], rows: Iterable[Sequence[object]], out: IO[str], *, header: bool = True
) -> int:
    """Write CSV (RFC 4180); NULL is nothing at all and the empty string ``""``, as PostgreSQL has it."""
    if header:
        out.write(csv_line(names))
    count = 0
    for row in rows:
        out.write(csv_line(row))
        count += 1
    return count


def csv_line(row: Sequence[object]) -> str:
    """Return one line of CSV with its end."""
    return ",".join([_csv_cell(value) for value in row]) + "\n"


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    text = to_text(value)
    if not text or _CSV_SPECIAL(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def write_json(names: Sequence[str], rows: Iterable[Sequence[object]], out: IO[str]) -> int:
    """Write one JSON array of objects, an object a line."""
    keys = json_names(names)
    count = 0
    out.write("[")
    for row in rows:
        out.write(f"{',' if count else ''}\n  {json_object(keys, row)}")
        count += 1
    out.write("\n]\n" if count else "]\n")
    return count


def write_jsonl(names: Sequence[str], rows: Iterable[Sequence[object]], out: IO[str]) -> int:
    """Write a JSON object a line."""
    keys = json_names(names)
    count = 0
    for row in rows:
        out.write(json_object(keys, row) + "\n")
        count += 1
    return count


def console_for(out: IO[str]) -> Console:
    """Return a console that writes to ``out`` and wraps lines only where that is a terminal."""
    from rich.console import Console

    terminal = out.isatty()
    return Console(
        file=out, highlight=False, markup=False, emoji=False, width=None if terminal else _UNLIMITED
    )


def _rows(cursor: Any) -> Iterator[Sequence[object]]:
    oids = [_oid(column[1]) for column in cursor.description]
    # A REAL with the digits it needs and no more, not those of the 64-bit float; JSON as it is.
    special = [(i, _SPECIAL[oid]) for i, oid in enumerate(oids) if oid in _SPECIAL]
    while chunk := cursor.fetchmany(_CHUNK):
        if not special:
            yield from chunk
            continue
        for row in chunk:
            changed = list(row)
            for i, change in special:
                if changed[i] is not None:
                    changed[i] = change(changed[i])
            yield changed


def _numeric(cursor: Any) -> list[bool]:
    """Which columns are numbers, to stand on the right."""
    return [_oid(column[1]) in _NUMERIC_OIDS for column in cursor.description]


def _oid(type_code: object) -> int | None:
    """PostgreSQL's id of a column's type, which drivers give as it is or as something that has it."""
    found = getattr(type_code, "oid", type_code)
    return found if isinstance(found, int) else None


def _looks_numeric(values: Iterable[object]) -> bool:
    kinds = {type(value) for value in values if value is not None}
    return bool(kinds) and kinds <= {int, float, Decimal}


def _cell(value: object) -> Text:
    from rich.text import Text

    if value is None:
        return Text("NULL", style="dim")
    # Control characters would move the cursor of the terminal; tabs would bend the frame.
    return Text(_CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", to_text(value)))


def _write_arrow(cursor: Any, out: IO[str]) -> int:
    pa = needed("pyarrow")
    if out.isatty():
        raise CliError("Arrow is not for a terminal", hint="Give a file with -o FILE, or pipe it on.")
    reader = cursor.fetch_record_batch()
    count = 0
    out.flush()
    binary = getattr(out, "buffer", None)
    if binary is None:
        raise CliError("Arrow cannot be written to this kind of output", hint="Give a file with -o FILE.")
    with pa.ipc.new_stream(binary, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            count += batch.num_rows
    binary.flush()
    return count


def write_document(value: object) -> None:
    """Write a command's result as one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, default=_as_json) + "\n")


def _as_json(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else str(value)
