"""Many rows at once: row images and keys to and from Arrow arrays, a column at a time.

A bulk load's batches become images and keys, and a scan's images become batches. Each function equals what
``rows`` and ``keys`` do row by row, which the tests compare. The images lie end to end in one buffer. Their
fixed areas are gathered into one matrix, whose columns are the Arrow columns; Arrow takes the bytes of a
variable column out of the buffer, which is declared a binary array of alternating gaps and contents.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import (
    LISTS,
    NUMBERS,
    Array,
    Buffer,
    NumpyArray,
    array_to_datums,
    arrow_type,
    buffer_of,
    contents_reader,
    contents_writer,
    datums_to_array,
    dress,
    hide_negative_infinity,
    integers_of,
    intervals_from_slots,
    nulls_of,
    pc,
    raw_of,
    slots_from_intervals,
    spans_of,
    storage,
    storage_type,
    validity,
    words_of,
)
from herdpy.codec.arrow_conform import conform
from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import KIND_FACTS, ByteForm, Field, KeyField, Kind
from herdpy.codec.rows import FIXED_WIDTHS, VARIABLE, bitmap_width

_LIMIT = 2**31 - 1
_SLOTS = {"B": "u1", "h": "<i2", "i": "<i4", "q": "<i8", "f": "<f4", "d": "<f8", "I": "<u4"}
"""The numpy type of a slot by its struct format; of others it is bytes."""


def images_to_batch(
    fields: Sequence[Field],
    names: Sequence[str],
    positions: Sequence[int],
    images: Sequence[bytes] | Array,
    precisions: Sequence[int | None] | None = None,
    *,
    short_decimals: bool = False,
) -> pa.RecordBatch:
    """Return the columns at these positions of many rows, as one Arrow batch.

    Args:
        fields: every column of the table, as for ``RowCodec``; images of older layouts are decoded too.
        names: the batch's column names, one for each position.
        positions: which columns, in the batch's order.
        images: the rows, as bytes or as a binary or large_binary array.
        precisions: of the decimals among the batch's columns, where they are known.
        short_decimals: decimals of at most 18 digits are decimal64, half as wide as what ``arrow_type`` says.

    Raises:
        ValueError: an image is not one of these fields, or a text column exceeds 2 GiB.
    """
    types = [arrow_type(fields[p], precisions[i] if precisions else None) for i, p in enumerate(positions)]
    if short_decimals:
        types = [_short(fields[p], kind) for p, kind in zip(positions, types, strict=True)]
    schema = pa.schema([pa.field(name, kind) for name, kind in zip(names, types, strict=True)])
    joined: Array = images if isinstance(images, pa.Array) else pa.array(images, pa.large_binary())
    joined = joined if pa.types.is_large_binary(joined.type) else joined.cast(pa.large_binary())
    count = len(joined)
    if not count:
        return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in types], schema=schema)
    if joined.null_count:
        raise ValueError("a row image is missing")
    offsets = np.frombuffer(joined.buffers()[1], np.int64, count + 1, joined.offset * 8)
    buffer = joined.buffers()[2]
    if buffer is None or int(np.diff(offsets).min()) < 2:
        raise ValueError("not a row image: fewer than 2 bytes")
    starts, stops = offsets[:-1], offsets[1:]
    columns = overlapping(buffer, "<u2")[starts]
    layouts = [int(columns[0])] if bool((columns == columns[0]).all()) else np.unique(columns).tolist()
    if layouts[-1] > len(fields):
        raise ValueError(f"a row image of {layouts[-1]} columns, where {len(fields)} are known")
    if len(layouts) == 1:
        arrays = _Layout(fields, layouts[0]).arrays(positions, types, buffer, starts, stops)
    else:
        groups = [np.flatnonzero(columns == n) for n in layouts]
        parts = [
            _Layout(fields, n).arrays(positions, types, buffer, starts[rows], stops[rows])
            for n, rows in zip(layouts, groups, strict=True)
        ]
        order = pa.array(np.argsort(np.concatenate(groups)))
        arrays = [pa.concat_arrays(column).take(order) for column in zip(*parts, strict=True)]
    if not types:
        no_columns: Array = pa.array([{}] * count, pa.struct([]))
        return pa.RecordBatch.from_struct_array(no_columns)
    retyped = [_retyped(array, kind) for array, kind in zip(arrays, types, strict=True)]
    return pa.RecordBatch.from_arrays(retyped, schema=schema)


def _short(field: Field, kind: pa.DataType) -> pa.DataType:
    """Return decimal64 for a decimal whose slot is one integer, or else the type itself."""
    facts = KIND_FACTS[field.kind]
    if facts.form is not ByteForm.SCALED or facts.width != 8 or not pa.types.is_decimal128(kind):
        return kind
    return pa.decimal64(kind.precision, kind.scale)


def _retyped(array: Array, kind: pa.DataType) -> Array:
    """Return a storage array as the wanted type, which may be a decimal of another precision."""
    inner = storage_type(kind)
    if array.type != inner and pa.types.is_list(inner):
        array = array.cast(inner)
    elif array.type != inner:
        array = pa.Array.from_buffers(inner, len(array), array.buffers(), array.null_count, array.offset)
    return dress(array, kind)


def overlapping(buffer: Buffer, dtype: str) -> NumpyArray:
    """Return a view whose element i is what begins at byte i of the buffer."""
    width = np.dtype(dtype).itemsize
    return np.ndarray((max(buffer.size - width + 1, 0),), dtype, buffer, 0, (1,))


class _Layout:
    """The images of one number of columns, as numpy sees them."""

    def __init__(self, fields: Sequence[Field], count: int) -> None:
        self.fields = fields
        self.count = count
        self.bitmap = bitmap_width(count)
        self.slots: list[int] = []
        at = 2 + self.bitmap
        for field in fields[:count]:
            self.slots.append(at)
            at += KIND_FACTS[field.kind].width
        self.width = at  # of everything before the variable area

    def dtype(self) -> np.dtype[Any]:
        """Return the structured type of an image's fixed part."""
        names = ["count", "nulls", *(f"c{i}" for i in range(self.count))]
        formats: list[Any] = ["<u2", ("u1", (self.bitmap,))]
        kinds = [KIND_FACTS[field.kind] for field in self.fields[: self.count]]
        formats += [_SLOTS.get(facts.slot, f"V{facts.width}") for facts in kinds]
        spec = {"names": names, "formats": formats, "offsets": [0, 2, *self.slots], "itemsize": self.width}
        return np.dtype(spec)  # type: ignore[call-overload,no-any-return]

    def arrays(
        self,
        positions: Sequence[int],
        types: Sequence[pa.DataType],
        buffer: Buffer,
        starts: NumpyArray,
        stops: NumpyArray,
    ) -> list[Array]:
        """Return the storage arrays of these columns of the images between starts and stops.

        ``types``: what they shall be; decimals may have another precision.
        """
        lengths = stops - starts
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < self.width:
            raise ValueError(f"a damaged row image: {shortest} bytes, of which {self.width} are fixed")
        first, total = int(starts[0]), len(starts)
        if shortest == longest and int(stops[-1]) - first == total * longest:
            fixed: NumpyArray = np.ndarray((total,), self.dtype(), buffer, first, (longest,))
        else:
            fixed = overlapping(buffer, f"V{self.width}")[starts].view(self.dtype())
        bitmap = fixed["nulls"]
        any_null = bool(bitmap.any())
        contents: NumpyArray | None = None
        arrays: list[Array] = []
        for p, kind in zip(positions, types, strict=True):
            field, short = self.fields[p], pa.types.is_decimal64(kind)
            if p >= self.count:
                repeated = _repeated(field, total)
                # Of the precision that slots have: rows of other layouts are put beside them.
                arrays.append(repeated.cast(_short(field, arrow_type(field))) if short else repeated)
                continue
            nulls = (bitmap[:, p >> 3] >> (p & 7) & 1).astype(bool) if any_null else None
            if field.kind in VARIABLE:
                contents = starts + self.width if contents is None else contents
                before = next((q for q in range(p - 1, -1, -1) if self.fields[q].kind in VARIABLE), None)
                begin = contents if before is None else contents + fixed[f"c{before}"]
                arrays.append(_contents(field, buffer, begin, contents + fixed[f"c{p}"], stops, nulls))
            else:
                arrays.append(column_of_slots(field, fixed[f"c{p}"], nulls, short=short))
        return arrays


def _repeated(field: Field, count: int) -> Array:
    """Return the storage array of a column that the images lack."""
    one = storage(datums_to_array(field, [field.missing]))
    return one.take(pa.array(np.zeros(count, np.int32)))


def column_of_slots(
    field: Field, slots: NumpyArray, nulls: NumpyArray | None, *, short: bool = False
) -> Array:
    """Return the storage array of a fixed-width column, given its slots (strided).

    ``short``: of a decimal of one integer, as decimal64.
    """
    valid, count = validity(nulls), len(slots)
    missing = int(nulls.sum()) if valid is not None and nulls is not None else 0
    values: NumpyArray
    facts = KIND_FACTS[field.kind]
    if facts.form is ByteForm.BOOL:
        values = np.packbits(slots, bitorder="little")
    elif facts.form is ByteForm.SCALED and facts.width == 8 and not short:
        values = np.empty((count, 2), "<i8")
        values[:, 0] = slots
        np.right_shift(values[:, 0], 63, out=values[:, 1])
    elif facts.form is ByteForm.INTERVAL:
        values = intervals_from_slots(slots, nulls)
    elif facts.form is ByteForm.NUMBER:
        values = hide_negative_infinity(np.ascontiguousarray(slots), field.kind)
    else:
        values = np.ascontiguousarray(slots)
    kind = storage_type(_short(field, arrow_type(field)) if short else arrow_type(field))
    return pa.Array.from_buffers(kind, count, [valid, buffer_of(values.view("u1"))], missing)


def binary_of_spans(buffer: Buffer, begin: NumpyArray, end: NumpyArray) -> Array:
    """Return the bytes from each ``begin`` to its ``end`` as a binary array; they come in order."""
    count = len(begin)
    small = not count or int(end[-1]) <= _LIMIT
    offsets = np.empty(2 * count + 1, np.int32 if small else np.int64)
    offsets[0], offsets[1::2], offsets[2::2] = 0, begin, end
    alternating = pa.Array.from_buffers(
        pa.binary() if small else pa.large_binary(), 2 * count, [None, buffer_of(offsets), buffer], 0
    )
    contents: Array = pa.array(np.arange(1, 2 * count, 2, dtype=np.int64))
    taken = alternating.take(contents)
    return taken if small else taken.cast(pa.binary())


def _contents(
    field: Field,
    buffer: Buffer,
    begin: NumpyArray,
    end: NumpyArray,
    stops: NumpyArray,
    nulls: NumpyArray | None,
) -> Array:
    """Return the array of a variable column, its bytes copied out of the images."""
    if bool((begin > end).any()) or bool((end > stops).any()):
        raise ValueError("a damaged row image: a variable column lies outside it")
    count, taken = len(begin), binary_of_spans(buffer, begin, end)
    valid = validity(nulls)
    _, places, data = taken.buffers()
    missing = int(nulls.sum()) if valid is not None and nulls is not None else 0
    kind = pa.binary() if field.kind in LISTS else arrow_type(field)
    found: Array = pa.Array.from_buffers(kind, count, [valid, places, data], missing, taken.offset)
    if field.kind not in LISTS:
        return found
    read = contents_reader(field)
    try:
        return datums_to_array(field, [None if one is None else read(one) for one in found.to_pylist()])
    except struct.error as error:
        raise ValueError(f"a damaged row image: {error}") from error


def batch_to_images(fields: Sequence[Field], batch: pa.RecordBatch) -> list[bytes]:
    """Return the images of a batch's rows, whose columns are the fields in order; NULL where they say.

    Columns of other Arrow types are conformed first. ValueError names the column, and the row
    counted from 0, of a value that does not fit.
    """
    if batch.num_columns != len(fields):
        raise ValueError(f"a batch of {batch.num_columns} columns for {len(fields)} fields")
    arrays = []
    for name, column, field in zip(batch.schema.names, batch.columns, fields, strict=True):
        try:
            arrays.append(storage(conform(column, field)))
        except ValueError as error:
            raise ValueError(f'column "{name}": {error}') from error
    return _images(_Layout(fields, len(fields)), arrays, batch.num_rows)


def _images(layout: _Layout, arrays: Sequence[Array], count: int) -> list[bytes]:
    if not count:
        return []
    fixed = np.zeros(count, layout.dtype())
    fixed["count"] = layout.count
    contents: list[Array] = []
    end: NumpyArray = np.zeros(count, np.int64)
    for i, (field, array) in enumerate(zip(layout.fields, arrays, strict=True)):
        nulls = nulls_of(array)
        if nulls is not None:
            fixed["nulls"][:, i >> 3] |= nulls.astype(np.uint8) << (i & 7)
        if field.kind in VARIABLE:
            filled = _bytes_of(field, array) if field.kind in LISTS else array.view(pa.binary())
            filled = filled if nulls is None else pc.fill_null(filled, b"")
            contents.append(filled)
            end = end + np.diff(spans_of(filled)[0])
            fixed[f"c{i}"] = end
            continue
        slots = slots_of(field, array)
        if nulls is not None:
            slots = slots.copy()
            slots[nulls] = np.zeros(1, slots.dtype)[0]
        fixed[f"c{i}"] = slots
    if not contents:
        images: list[bytes] = fixed.view(f"V{layout.width}").tolist()
        return images
    if count * layout.width + int(end.sum()) > _LIMIT and count > 1:
        half = count // 2
        first, second = [a.slice(0, half) for a in arrays], [a.slice(half) for a in arrays]
        return _images(layout, first, half) + _images(layout, second, count - half)
    offsets = np.arange(0, (count + 1) * layout.width, layout.width, dtype=np.int32)
    heads = pa.Array.from_buffers(pa.binary(), count, [None, buffer_of(offsets), buffer_of(fixed.view("u1"))])
    joined: list[bytes] = pc.binary_join_element_wise(heads, *contents, b"").to_pylist()
    return joined


def _bytes_of(field: Field, array: Array) -> Array:
    """Return what images have of arrays or vectors, as a binary array."""
    write = contents_writer(field)
    datums = array_to_datums(field, array)
    return pa.array([None if datum is None else write(datum) for datum in datums], pa.binary())


def slots_of(field: Field, array: Array) -> NumpyArray:
    """Return the slots of a fixed-width column; undefined where NULL."""
    facts = KIND_FACTS[field.kind]
    if facts.form is ByteForm.INTERVAL:
        return slots_from_intervals(array)
    if facts.form is ByteForm.BOOL:
        values: NumpyArray = pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.uint8)
        return values
    if facts.form is ByteForm.NUMBER:
        return integers_of(array, field.kind)
    if facts.form is ByteForm.SCALED and facts.width == 8:
        return words_of(array)[:, 0].view(np.int64)
    return raw_of(array, facts.width)


# Keys.

_FLOATS = "fd"
_VALUE, _NULL_FIRST, _NULL_LAST = b"\x01", b"\x00", b"\x02"


def batch_to_keys(key_fields: Sequence[KeyField], columns: Sequence[Any]) -> list[bytes]:
    """Return the key of each row, given the key's columns as Arrow arrays of the same length.

    Columns of other Arrow types are conformed first. ValueError names the key column and the first
    row (both from 0) whose value does not fit or may not be NULL.
    """
    if len(columns) != len(key_fields):
        raise ValueError(f"{len(columns)} columns for a key of {len(key_fields)}")
    pieces: list[NumpyArray | Array] = []
    for i, (one, column) in enumerate(zip(key_fields, columns, strict=True)):
        try:
            pieces += _key_pieces(one, conform(column, one))
        except ValueError as error:
            raise ValueError(f"key column {i}: {error}") from error
    return _joined(pieces) if pieces else []


def _key_pieces(one: KeyField, array: Array) -> list[NumpyArray | Array]:
    """Return what a column adds to each key: (n, width) bytes where all are as wide, or a binary array."""
    nulls = nulls_of(array)
    if nulls is not None and not one.nullable:
        raise ValueError(f"row {int(np.argmax(nulls))}: NULL is not allowed")
    piece = _values(one, array)
    if not one.nullable:
        return [piece]
    if nulls is None:
        return [np.full((len(array), 1), _VALUE[0], np.uint8), piece]
    tagged = pc.binary_join_element_wise(_VALUE, _binary(piece), b"")
    null = _NULL_FIRST if one.nulls_first else _NULL_LAST
    return [pc.if_else(pa.array(nulls), pa.scalar(null, pa.binary()), tagged)]


def _values(one: KeyField, array: Array) -> NumpyArray | Array:
    facts = KIND_FACTS[one.kind]
    match facts.form:
        case ByteForm.TEXT | ByteForm.BYTES:
            return _terminated(one, array)
        case ByteForm.DECIMAL | ByteForm.JSONB | ByteForm.ARRAY | ByteForm.VECTOR | ByteForm.INTERVAL:
            # Their bytes have no fixed places, so they go row by row.
            own = KeyField(one.kind, one.scale, one.descending, element=one.element)
            encode = KeyCodec([own]).encode
            datums = array_to_datums(Field(one.kind, one.scale, element=one.element), array)
            return pa.array([b"" if datum is None else encode((datum,)) for datum in datums], pa.binary())
        case _:
            matrix = _fixed(one, array)
            return ~matrix if one.descending else matrix


def _terminated(one: KeyField, array: Array) -> Array:
    """Return text or bytes with their terminator; conform() has seen to it that text has no 0x00."""
    filled = array.view(pa.binary())
    filled = pc.fill_null(filled, b"") if filled.null_count else filled
    is_text = KIND_FACTS[one.kind].form is ByteForm.TEXT
    if not is_text:
        filled = pc.replace_substring(filled, pattern=b"\0", replacement=b"\0\xff")
    ended = pc.binary_join_element_wise(filled, b"\0" if is_text else b"\0\0", b"")
    if not one.descending or not len(ended):
        return ended
    offsets, data = spans_of(ended)
    return pa.Array.from_buffers(
        pa.binary(), len(ended), [None, buffer_of(offsets), buffer_of(~np.frombuffer(data, np.uint8))]
    )


def _fixed(one: KeyField, array: Array) -> NumpyArray:
    """Return the ascending bytes of a fixed-width column as an (n, width) matrix; undefined where NULL."""
    kind = one.kind
    facts, width = KIND_FACTS[kind], FIXED_WIDTHS[kind]
    numbers: NumpyArray
    if not len(array):
        return np.empty((0, width), np.uint8)
    if facts.form is ByteForm.RAW:
        return raw_of(array, width).view(np.uint8).reshape(-1, width)
    if facts.form is ByteForm.BOOL:
        filled = pc.fill_null(array, False)
        numbers = filled.to_numpy(zero_copy_only=False).astype(np.uint8)
        return numbers.reshape(-1, 1)
    if facts.form is ByteForm.SCALED and width == 16:
        words = words_of(array)[:, ::-1].astype(">u8")
        words[:, 0] ^= np.uint64(1 << 63)
        return words.view(np.uint8).reshape(-1, 16)
    if facts.slot in _FLOATS:
        numbers = _float_bits(integers_of(array, kind), width)
    else:
        is_scaled = facts.form is ByteForm.SCALED
        numbers = words_of(array)[:, 0] if is_scaled else integers_of(array, kind)
        numbers = numbers.view(f"<u{width}") ^ np.array(1 << 8 * width - 1, f"<u{width}")
    return numbers.astype(f">u{width}").view(np.uint8).reshape(-1, width)


def _float_bits(values: NumpyArray, width: int) -> NumpyArray:
    """Return the integers of ``float32_bits`` or ``float64_bits``."""
    unsigned = f"<u{width}"
    top = np.array(1 << 8 * width - 1, unsigned)
    bits = (values + values.dtype.type(0)).view(unsigned)
    ordered = np.where(bits & top, ~bits, bits | top)
    nan = np.array([np.nan], f"<f{width}").view(unsigned) | top
    result: NumpyArray = np.where(np.isnan(values), nan, ordered)
    return result


def _binary(piece: NumpyArray | Array) -> Array:
    """Return a piece as a binary array."""
    if not isinstance(piece, np.ndarray):
        return piece
    count, width = piece.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    data = buffer_of(np.ascontiguousarray(piece))
    return pa.Array.from_buffers(pa.binary(), count, [None, buffer_of(offsets), data])


def _joined(pieces: list[NumpyArray | Array]) -> list[bytes]:
    """Return the pieces of each row end to end."""
    runs: list[NumpyArray | Array] = []
    for piece in pieces:
        if runs and isinstance(piece, np.ndarray) and isinstance(runs[-1], np.ndarray):
            runs[-1] = np.concatenate([runs[-1], piece], axis=1)
        else:
            runs.append(piece)
    if len(runs) == 1 and isinstance(runs[0], np.ndarray):
        matrix = np.ascontiguousarray(runs[0])
        keys: list[bytes] = matrix.view(f"V{matrix.shape[1]}").ravel().tolist()
        return keys
    arrays = [_binary(run) for run in runs]
    joined = arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, b"")
    listed: list[bytes] = joined.to_pylist()
    return listed


# Back.

#: The kinds whose bytes are an integer's, or stand as they are, and how many there are.
_DECODED_WIDTHS: dict[Kind, int] = {
    kind: width
    for kind, width in FIXED_WIDTHS.items()
    if KIND_FACTS[kind].slot in _SLOTS.keys() - set(_FLOATS) or KIND_FACTS[kind].form is ByteForm.RAW
}


def keys_to_arrays(
    key_fields: Sequence[KeyField], keys: Sequence[bytes], precisions: Sequence[int | None] | None = None
) -> list[Array]:
    """Return one Arrow array for each column of the keys, of the types that images' columns have.

    ``precisions``: of the decimals, where they are known. ValueError: one is not a key of these fields.
    """
    digits = precisions or [None] * len(key_fields)
    if keys and all(not one.nullable and one.kind in _DECODED_WIDTHS for one in key_fields):
        return _decode_fixed(key_fields, keys, digits)
    decode = KeyCodec(key_fields).decode
    rows = [decode(key) for key in keys]
    return [
        datums_to_array(
            Field(one.kind, one.scale, element=one.element), [row[at] for row in rows], digits[at]
        )
        for at, one in enumerate(key_fields)
    ]


def _decode_fixed(
    key_fields: Sequence[KeyField], keys: Sequence[bytes], digits: Sequence[int | None]
) -> list[Array]:
    """As ``keys_to_arrays``, where every key has the same bytes in the same places."""
    widths = [_DECODED_WIDTHS[one.kind] for one in key_fields]
    whole = sum(widths)
    for key in keys:
        if len(key) != whole:
            raise ValueError(f"not a key of this index: {key[:32]!r}: it has {len(key)} bytes, not {whole}")
    matrix = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), whole)
    arrays: list[Array] = []
    at = 0
    for one, width, precision in zip(key_fields, widths, digits, strict=True):
        piece = np.ascontiguousarray(matrix[:, at : at + width])
        arrays.append(_key_column(one, ~piece if one.descending else piece, precision))
        at += width
    return arrays


def _key_column(one: KeyField, piece: NumpyArray, precision: int | None) -> Array:
    """Return a column's array from its ascending bytes, an (n, width) matrix."""
    count, width = piece.shape
    kind = arrow_type(one, precision)
    values: NumpyArray
    form = KIND_FACTS[one.kind].form
    if form is ByteForm.BOOL:
        values = np.packbits(piece[:, 0], bitorder="little")
    elif form is ByteForm.RAW:
        values = piece
    else:
        bits = piece.view(f">u{width}").ravel().astype(f"<u{width}")
        signed = (bits ^ np.array(1 << 8 * width - 1, f"<u{width}")).view(f"<i{width}")
        if form is ByteForm.SCALED:
            values = np.empty((count, 2), "<i8")
            values[:, 0], values[:, 1] = signed, signed >> 63
        else:
            assert one.kind in NUMBERS
            values = hide_negative_infinity(signed, one.kind)
    buffers = [None, buffer_of(np.ascontiguousarray(values).view(np.uint8))]
    return dress(pa.Array.from_buffers(storage_type(kind), count, buffers, 0), kind)
