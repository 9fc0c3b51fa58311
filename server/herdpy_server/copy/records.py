"""Lines of COPY's text and CSV formats: where each ends, and its fields. Slow and exact.

Source of the rules: PostgreSQL 15, src/backend/commands/copyfromparse.c (CopyReadLineText,
CopyReadAttributesText, CopyReadAttributesCSV). Bytes come in, lines and their fields go out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from herdpy_sql.errors import SqlError
from herdpy_sql.plan.copy_options import CopyOptions
from herdpy_sql.values.strings import text_of

LF, CR, CRLF = b"\n", b"\r", b"\r\n"
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.)|$)", re.DOTALL)
END = b"\\."


class LineCutter:
    """Finds the ends of lines in a growing buffer.

    Attributes:
        ending: the bytes that end lines, learnt from the first one; b"" before.
        ended: the end-of-data marker has been seen.
        newlines: within the line that was looked at last.
    """

    def __init__(self, options: CopyOptions) -> None:
        self.is_csv = options.format == "csv"
        self.ending = b""
        self.ended = False
        self.newlines = 0
        quote, escape = options.quote.encode(), options.escape.encode()
        self._quote = quote
        self._escape = escape if self.is_csv and escape != quote else b""
        special = b"\r\n" + (quote + self._escape if self.is_csv else b"\\")
        self._special = re.compile(b"[" + re.escape(special) + b"]")

    def cut(self, data: bytes, start: int, *, last: bool) -> tuple[bytes, int, int] | None:
        """The line at ``start``: its bytes, where the next starts, and newlines within it.

        None when it is not complete (``last``: there is no more data, so it is what there is).
        SqlError 22P04 for line ends that differ and a corrupt end-of-data marker.
        """
        if self.is_csv and data.startswith(END, start):
            found = self._csv_marker(data, start)
            if found is not None:
                return found
            if not last and len(data) < start + 4:
                return None
        at, quoted, self.newlines = start, False, 0
        while match := self._special.search(data, at):
            at, byte = match.start(), match.group()
            if byte in {LF, CR} and not quoted:
                end = self._end(data, at, byte, last=last)
                return None if end is None else (data[start:at], end, self.newlines)
            if byte == self._escape and quoted:
                if at + 1 >= len(data) and not last:
                    return None
                at += 2 if data[at + 1 : at + 2] in {self._escape, self._quote} else 1
            elif self.is_csv:
                if byte == self._quote:
                    quoted = not quoted
                elif byte == (LF if self.ending == LF else CR):  # as PostgreSQL counts lines
                    self.newlines += 1
                at += 1
            else:
                if at + 1 >= len(data):
                    break
                if data[at + 1 : at + 2] == b".":
                    return self._text_marker(data, start, at, last=last)
                at += 2
        if not last:
            return None
        return data[start:], len(data), self.newlines

    def _end(self, data: bytes, at: int, byte: bytes, *, last: bool) -> int | None:
        """Where the next line starts; None when the byte after must be known first."""
        if byte == LF:
            if self.ending in {CR, CRLF}:
                raise self._mixed("newline", "\\n")
            self.ending = LF
            return at + 1
        if self.ending in {b"", CRLF}:
            if at + 1 >= len(data) and not last:
                return None
            if data[at + 1 : at + 2] == LF:
                self.ending = CRLF
                return at + 2
            if self.ending == CRLF:
                raise self._mixed("carriage return", "\\r")
            self.ending = CR
        elif self.ending == LF:
            raise self._mixed("carriage return", "\\r")
        return at + 1

    def _mixed(self, what: str, escape: str) -> SqlError:
        if self.is_csv:
            return SqlError(
                "22P04",
                f"unquoted {what} found in data",
                hint=f"Use quoted CSV field to represent {what}.",
            )
        return SqlError("22P04", f"literal {what} found in data", hint=f'Use "{escape}" to represent {what}.')

    def _csv_marker(self, data: bytes, start: int) -> tuple[bytes, int, int] | None:
        """The marker alone on a line of CSV ends the data; with anything else it is data."""
        rest = data[start + 2 : start + 4]
        if self.ending == CRLF and rest:
            if rest[:1] != CR:
                return None
            rest = rest[1:]
        if rest[:1] not in {LF, CR}:
            return None
        if self.ending and rest[:1] != self.ending[-1:]:
            raise SqlError("22P04", "end-of-copy marker does not match previous newline style")
        self.ended = True
        return b"", len(data), 0

    def _text_marker(self, data: bytes, start: int, at: int, *, last: bool) -> tuple[bytes, int, int] | None:
        rest = data[at + 2 : at + 4]
        if len(rest) < max(len(self.ending), 1) and not last:
            return None
        if self.ending == CRLF and rest[:1] == LF:
            raise SqlError("22P04", "end-of-copy marker does not match previous newline style")
        if not _ends_line(rest, self.ending):
            raise SqlError("22P04", "end-of-copy marker corrupt")
        if self.ending and not rest.startswith(self.ending):
            raise SqlError("22P04", "end-of-copy marker does not match previous newline style")
        self.ended = True
        return data[start:at], len(data), 0


def _ends_line(rest: bytes, ending: bytes) -> bool:
    """Whether what comes after a marker is some end of a line; nothing is none."""
    if ending == CRLF:
        return rest[:1] == CR and rest[1:2] in {LF, CR}
    return rest[:1] in {LF, CR}


class FieldCutter:
    """Cuts a line into its fields; None is NULL. SqlError 22P04 and 22021."""

    def __init__(self, options: CopyOptions) -> None:
        self._delimiter = options.delimiter.encode()
        self._null = options.null.encode()
        self._quote, self._escape = options.quote.encode(), options.escape.encode()
        self._not_null, self._force_null = options.force_not_null, options.force_null
        self._plain = re.compile(b"[" + re.escape(self._delimiter + self._quote) + b"]")
        self._quoted = re.compile(b"[" + re.escape(self._escape + self._quote) + b"]")
        self._text_special = re.compile(b"[" + re.escape(self._delimiter) + b"\\\\]")
        self.cut = self._csv if options.format == "csv" else self._text

    def _text(self, line: bytes) -> Sequence[bytes | None]:
        if b"\\" not in line:
            return [None if field == self._null else field for field in line.split(self._delimiter)]
        fields: list[bytes | None] = []
        start = at = 0
        while match := self._text_special.search(line, at):
            if match.group() == b"\\":
                at = match.end() + 1
                continue
            fields.append(self._text_field(line[start : match.start()]))
            start = at = match.end()
        fields.append(self._text_field(line[start:]))
        return fields

    def _text_field(self, raw: bytes) -> bytes | None:
        if raw == self._null:
            return None
        if b"\\" in raw:
            raw = unescape(raw)
            text_of(raw)  # escapes can make what is no text
        return raw

    def _csv(self, line: bytes) -> Sequence[bytes | None]:
        if self._quote not in line:
            fields = line.split(self._delimiter)
            return [self._csv_null(field, i, quoted=False) for i, field in enumerate(fields)]
        found: list[bytes | None] = []
        at = 0
        while True:
            pieces: list[bytes] = []
            quoted = False
            while True:
                match = self._plain.search(line, at)
                if match is None:
                    pieces.append(line[at:])
                    at = -1
                    break
                pieces.append(line[at : match.start()])
                at = match.end()
                if match.group() == self._delimiter:
                    break
                quoted = True
                at = self._until_quote(line, at, pieces)
            found.append(self._csv_null(b"".join(pieces), len(found), quoted=quoted))
            if at < 0:
                return found

    def _until_quote(self, line: bytes, at: int, pieces: list[bytes]) -> int:
        """Add what is quoted from ``at`` on; gives where it goes on after the quote."""
        while match := self._quoted.search(line, at):
            pieces.append(line[at : match.start()])
            at = match.end()
            after = line[at : at + 1]
            if match.group() == self._escape and after and after in {self._escape, self._quote}:
                pieces.append(after)
                at += 1
            elif match.group() == self._quote:
                return at
            else:
                pieces.append(match.group())
        raise SqlError("22P04", "unterminated CSV quoted field")

    def _csv_null(self, value: bytes, place: int, *, quoted: bool) -> bytes | None:
        if value != self._null:
            return value
        if quoted:
            return None if place in self._force_null else value
        return value if place in self._not_null else None


def unescape(raw: bytes) -> bytes:
    """What a field of the text format stands for."""
    return _ESCAPE.sub(_unescaped, raw) if b"\\" in raw else raw


def _unescaped(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    return b"\\" if letter is None else _LETTERS.get(letter, letter)
