"""How datums are written on PostgreSQL's wire: each type's text and binary form, rows, parameters.

Below the front ends (``pgwire``) and COPY's binary format; knows nothing of sessions or connections.

    decoder(type, binary, style) -> (bytes -> Datum)        encoder(type, binary, style) -> (Datum -> bytes)
    rows_encoder(types, formats, style) -> (rows -> whole DataRow messages, one after another)
    answer_encoder(types, formats, style, decode, around) -> (image of one row -> a whole answer)
    DataRowForm(types, formats, style)                       makes DataRow messages of Arrow batches
    row_bodies(arrays, types, formats, style) -> their bodies as an Arrow array
    copy_data_messages(pieces) -> CopyData messages
    declared_types(oids, catalog), parameter_decoder(oid, type, binary, style)   what clients send

NULL is the message's business: no decoder is called for it and no encoder is given None.
"""

from herdpy_server.wire.columns import DataRowForm, copy_data_messages, row_bodies
from herdpy_server.wire.formats import decoder, encoder
from herdpy_server.wire.parameters import declared_types, parameter_decoder, type_of_oid
from herdpy_server.wire.rows import answer_encoder, rows_encoder

__all__ = [
    "DataRowForm",
    "answer_encoder",
    "copy_data_messages",
    "declared_types",
    "decoder",
    "encoder",
    "parameter_decoder",
    "row_bodies",
    "rows_encoder",
    "type_of_oid",
]
