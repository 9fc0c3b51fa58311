"""What a conversation keeps for prepared statements and portals: the functions between bytes and datums.

Below ``conversation``, which keeps them. Made once for a statement and the formats that its client uses, and
kept for as long as the session's own object is the same one, so that binding and answering look nothing up by
type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from herdpy_server.pgwire.backend import ProtocolViolationError, row_description
from herdpy_server.wire import DataRowForm, answer_encoder, parameter_decoder, rows_encoder
from herdpy_sql.errors import SqlError
from herdpy_sql.values.styles import Style

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.block_statements import ResolvedStatement
    from herdpy_server.sessions.plans import PreparedStatement, ReadyPlan
    from herdpy_server.sessions.point_reads import PointRead
    from herdpy_server.sessions.portals import Portal
    from herdpy_sql.plan import OutputColumn


Formats = tuple[int, ...]
RowsEncoder = Callable[[Iterable[Sequence[Any]]], bytes]

TEXT: Formats = ()
_int: Final = struct.Struct(">i").unpack_from


class ClientStatement:
    """A prepared statement as its client uses it.

    Attributes:
        name: the statement's.
        oids: the types that Parse declared.
        pattern: what the newest Bind message looked like.
    """

    __slots__ = (
        "_columns",
        "_described",
        "_encode",
        "_results",
        "_row_style",
        "_shown",
        "name",
        "oids",
        "pattern",
        "statement",
    )

    def __init__(self, name: str, statement: PreparedStatement, oids: tuple[int, ...]) -> None:
        self.name = name
        self.statement = statement
        self.oids = oids
        self.pattern: BindPattern | None = None
        self._columns: Sequence[OutputColumn] | None = None
        self._results: Formats = TEXT
        self._row_style: Style | None = None
        self._encode: RowsEncoder | None = None
        self._shown: Sequence[OutputColumn] | None = None
        self._described: dict[Formats, bytes] = {}

    def parsed_again(self, statement: PreparedStatement, oids: tuple[int, ...]) -> bool:
        """The same text was parsed again: whether all that is remembered holds for ``statement`` too."""
        before = self.statement
        if (
            oids != self.oids
            or statement.param_types is not before.param_types
            or statement.columns is not before.columns
        ):
            return False
        self.statement = statement
        return True

    def decoders(self, formats: Formats, count: int, style: Style) -> list[Callable[[bytes], Datum]]:
        """The functions from values to datums. SqlError 22023 for a format that is not there."""
        types = self.statement.param_types
        oids = self.oids + (0,) * (len(types) - len(self.oids))
        spread = spread_formats(formats, count)
        return [
            parameter_decoder(oid, sql_type, bool(form), style)
            for oid, sql_type, form in zip(oids, types, spread, strict=True)
        ]

    def encoder(self, columns: Sequence[OutputColumn], results: Formats, style: Style) -> RowsEncoder:
        """The function from rows to DataRow messages. SqlError 22023 for a format that is not there."""
        encode = self._encode
        if (
            encode is None
            or columns is not self._columns
            or results != self._results
            or style != self._row_style
        ):
            self._encode = encode = make_encoder(columns, results, style)
            self._columns, self._results, self._row_style = columns, results, style
        return encode

    def row_description(self, columns: Sequence[OutputColumn], results: Formats) -> bytes:
        """RowDescription of what the statement returns."""
        if columns is not self._shown:
            self._described.clear()
            self._shown = columns
        found = self._described.get(results)
        if found is None:
            found = row_description(columns, _spread(results, len(columns)))
            if len(self._described) > 8:
                self._described.clear()
            self._described[results] = found
        return found


class ClientPortal:
    """A portal and the formats that its rows are wanted in."""

    __slots__ = ("bound", "portal", "results")

    def __init__(self, portal: Portal, bound: ClientStatement, results: Formats) -> None:
        self.portal = portal
        self.bound = bound
        self.results = results

    def row_description(self, columns: Sequence[OutputColumn]) -> bytes:
        """RowDescription of its rows."""
        return self.bound.row_description(columns, self.results)


class AnswerForm:
    """How an answer is put.

    Attributes:
        head: the messages before the rows.
        encode: makes DataRow messages; None where there are no rows.
    """

    __slots__ = ("encode", "head")

    def __init__(self, head: bytes, encode: RowsEncoder | None) -> None:
        self.head = head
        self.encode = encode


class QueryForm:
    """How a simple query of one statement is answered: all in text.

    Attributes:
        columns, style: what the form is for.
        point: the statement as one function; None until it has run once, or where it cannot be that.
    """

    __slots__ = ("columns", "form", "point", "style")

    def __init__(self, form: AnswerForm, columns: Sequence[OutputColumn], style: Style) -> None:
        self.form = form
        self.columns = columns
        self.style = style
        self.point: PointRead | None = None


class BindPattern:
    """How a statement is bound: what its Bind messages look like, but for their values.

    A client binds a statement in the same way again and again. A message for the unnamed portal that has the
    same bytes around its values as the one before needs not be taken apart.

    Attributes:
        results: formats of results.
        head: the bytes between the statement's name and the values: formats, and how many there are.
        tail: the bytes after the values: formats of results.
        decoders: for each value; ``style`` is the session's that they are for.
        form: how the answer was put the last time, when the columns were ``columns``.
        point: a read as one function, outside of a transaction; None until it was answered twice, or
            where it cannot be that. ``alone``: the same of what begins a transaction, or is one and writes,
            for the plan ``tried_alone``. ``in_block``: the same in a transaction, for the plan ``tried``.
        spent: the portal of a point statement that ran in a transaction; it has no rows left.
    """

    __slots__ = (
        "alone",
        "columns",
        "decoders",
        "form",
        "head",
        "in_block",
        "point",
        "results",
        "spent",
        "style",
        "tail",
        "tried",
        "tried_alone",
    )

    def __init__(self, bound: ClientStatement, formats: Formats, results: Formats, style: Style) -> None:
        """SqlError 22023 for a format that is not there."""
        self.results = results
        self.style = style
        self.decoders = bound.decoders(formats, len(bound.statement.param_types), style)
        self.head = b"\0" + _shorts(formats) + struct.pack(">H", len(self.decoders))
        self.tail = _shorts(results)
        self.form: AnswerForm | None = None
        self.columns: Sequence[OutputColumn] | None = None
        self.spent: ClientPortal | None = None
        self.point: PointRead | None = None
        self.in_block: ResolvedStatement | None = None
        self.alone: ResolvedStatement | None = None
        self.tried: ReadyPlan | None = None
        self.tried_alone: ReadyPlan | None = None

    def datums(self, values: list[bytes | None]) -> tuple[Datum, ...]:
        """The datums of a message that was taken apart. SqlError as the types say of the bytes."""
        return tuple(
            [
                None if value is None else decode(value)
                for decode, value in zip(self.decoders, values, strict=True)
            ]
        )

    def values(self, data: bytes, at: int, stop: int) -> tuple[Datum, ...] | None:
        """The datums of a message whose values begin at ``at``; None when it is another pattern after all.

        SqlError as the types say of the bytes.
        """
        found: list[Datum] = []
        for decode in self.decoders:
            length = _int(data, at)[0] if at + 4 <= stop else -2
            at += 4
            if length >= 0:
                end = at + length
                if end > stop:
                    return None
                found.append(decode(data[at:end]))
                at = end
            elif length == -1:
                found.append(None)
            else:
                return None
        return tuple(found) if data[at:stop] == self.tail else None


def _shorts(formats: Formats) -> bytes:
    return struct.pack(f">H{len(formats)}h", len(formats), *formats)


def check_parameter_formats(formats: Formats, count: int) -> None:
    """ProtocolError for a number of formats that does not fit; see PostgreSQL's Bind."""
    if len(formats) > 1 and len(formats) != count:
        raise ProtocolViolationError(
            f"bind message has {len(formats)} parameter formats but {count} parameters"
        )


def check_result_formats(results: Formats, columns: Sequence[OutputColumn] | None) -> None:
    """ProtocolError for a number of formats that does not fit the columns."""
    if len(results) > 1 and columns is not None and len(results) != len(columns):
        raise ProtocolViolationError(
            f"bind message has {len(results)} result formats but query has {len(columns)} columns"
        )


def spread_formats(formats: Formats, count: int) -> Formats:
    """One format for each of ``count``. SqlError 22023 for one that is not there."""
    for form in formats:
        if form not in (0, 1):
            raise SqlError("22023", f"unsupported format code: {form}")
    return _spread(formats, count)


def _spread(formats: Formats, count: int) -> Formats:
    if len(formats) == count:
        return formats
    return (formats[0] if formats else 0,) * count


def row_form(columns: Sequence[OutputColumn], results: Formats, style: Style) -> DataRowForm:
    """What makes DataRow messages of batches, wherever the rows are."""
    spread = spread_formats(results, len(columns))
    return DataRowForm([column.type for column in columns], [bool(form) for form in spread], style)


def make_encoder(columns: Sequence[OutputColumn], results: Formats, style: Style) -> RowsEncoder:
    """The function from rows to DataRow messages."""
    spread = spread_formats(results, len(columns))
    return rows_encoder([column.type for column in columns], [bool(form) for form in spread], style)


def make_answer_encoder(
    columns: Sequence[OutputColumn],
    results: Formats,
    style: Style,
    decode: Callable[[bytes], Sequence[Datum]],
    around: tuple[bytes, bytes],
) -> Callable[[bytes], bytes]:
    """The function from a row's image to the answer that has it, with the messages ``around`` it."""
    spread = [bool(form) for form in spread_formats(results, len(columns))]
    return answer_encoder([column.type for column in columns], spread, style, decode, around)
