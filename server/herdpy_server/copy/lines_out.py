"""Arrow batches to lines of COPY's text and CSV formats.

Beside ``textual``. Whole columns become text, are quoted or escaped where a value needs it, and are joined
to lines; a line is never a Python object. Rules: PostgreSQL 15, src/backend/commands/copyto.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from herdpy_server.copy.target import Array, CopyTarget
from herdpy_server.wire.column_texts import column_to_text
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base

pc: Any = pyarrow.compute

_NEVER_SPECIAL = frozenset(
    {Base.SMALLINT, Base.INTEGER, Base.BIGINT, Base.BOOLEAN, Base.NUMERIC, Base.REAL, Base.DOUBLE,
     Base.DATE, Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ, Base.UUID}
)  # fmt: skip
_LETTERS = (("\b", "b"), ("\f", "f"), ("\n", "n"), ("\r", "r"), ("\t", "t"), ("\v", "v"))
# Characters that text of those types may have, any of which may be a delimiter, a quote or in NULL's text.
_OF_VALUES = frozenset("0123456789+-.:etfNaInity BC abcdf")


class LineWriter:
    """Writes text or CSV; each line is a piece."""

    def __init__(self, target: CopyTarget) -> None:
        self._target = target
        options = target.options
        self._options = options
        self._is_csv = options.format == "csv"
        own = {options.delimiter, options.quote, options.escape} if self._is_csv else {options.delimiter}
        self._plain = _NEVER_SPECIAL if not own & _OF_VALUES else frozenset()
        # A value that is written as NULL is must be quoted to be told apart.
        self._null_like = bool(set(options.null)) and set(options.null) <= _OF_VALUES

    def start(self, schema: pa.Schema) -> Sequence[bytes]:
        """The header, if there is to be one."""
        del schema
        if not self._options.header:
            return ()
        names = [pa.array([name], pa.string()) for name, _ in self._target.columns]
        written = [
            self._quoted(name, forced=False) if self._is_csv else self._escaped(name) for name in names
        ]
        line = self._options.delimiter.join(array[0].as_py() for array in written) + "\n"
        return [self._recoded(line)]

    def batch(self, batch: pa.RecordBatch) -> Array | Sequence[bytes]:
        """The lines of a batch, as an Arrow array of strings."""
        if not batch.num_columns:
            return [b"\n"] * batch.num_rows
        written = []
        for place, (array, sql_type) in enumerate(zip(batch.columns, self._target.types, strict=True)):
            text = column_to_text(array, sql_type, self._target.zone)
            forced = place in self._options.force_quote
            if self._is_csv:
                if forced or self._null_like or sql_type.base not in self._plain:
                    text = self._quoted(text, forced=forced)
            elif sql_type.base not in self._plain:
                text = self._escaped(text)
            written.append(text)
        # The end of the line is joined as one more column, so its delimiter must go: it is joined first.
        last = pc.binary_join_element_wise(
            written[-1], "\n", "", null_handling="replace", null_replacement=self._options.null
        )
        lines = pc.binary_join_element_wise(
            *written[:-1],
            last,
            self._options.delimiter,
            null_handling="replace",
            null_replacement=self._options.null,
        )
        if self._options.encoding != "utf-8":
            return [self._recoded(line) for line in lines.to_pylist()]
        return lines.view(pa.binary())

    def end(self) -> Sequence[bytes]:
        """Nothing."""
        return ()

    def _recoded(self, line: str) -> bytes:
        if self._options.encoding == "utf-8":
            return line.encode()
        try:
            return line.encode(self._options.encoding)
        except UnicodeEncodeError as error:
            name = self._options.encoding_name.upper()
            shown = " ".join(f"0x{byte:02x}" for byte in line[error.start].encode())
            message = f'character with byte sequence {shown} in encoding "UTF8" has no equivalent in encoding'
            raise SqlError("22P05", f'{message} "{name}"') from None

    def _quoted(self, text: Array, *, forced: bool) -> Array:
        """CSV's fields: quoted where they would be read as something else."""
        options = self._options
        if forced:
            needed = None
        else:
            special = "".join(f"\\x{ord(c):02x}" for c in {options.delimiter, options.quote, "\n", "\r"})
            needed = pc.match_substring_regex(text, f"[{special}]")
            needed = pc.or_(needed, pc.equal(text, options.null))
            if len(self._target.columns) == 1:
                needed = pc.or_(needed, pc.equal(text, "\\."))
            if pc.any(needed).as_py() is not True:
                return text
        inner = text
        if options.escape != options.quote:
            inner = pc.replace_substring(inner, options.escape, options.escape * 2)
        inner = pc.replace_substring(inner, options.quote, options.escape + options.quote)
        quoted = pc.binary_join_element_wise(options.quote, inner, options.quote, "")
        return quoted if needed is None else pc.if_else(needed, quoted, text)

    def _escaped(self, text: Array) -> Array:
        """The text format's fields, with backslashes before what would be read as something else."""
        delimiter = self._options.delimiter
        special = "".join(f"\\x{ord(c):02x}" for c in ("\\", delimiter, *(c for c, _ in _LETTERS)))
        if pc.any(pc.match_substring_regex(text, f"[{special}]")).as_py() is not True:
            return text
        text = pc.replace_substring(text, "\\", "\\\\")
        for character, letter in _LETTERS:
            text = pc.replace_substring(text, character, "\\" + letter)
        if delimiter not in {character for character, _ in _LETTERS}:
            text = pc.replace_substring(text, delimiter, "\\" + delimiter)
        return text
