"""COPY's formats: data in arbitrary pieces to Arrow batches of a table's columns, and batches to data.

Between the sessions, which have the table and the transaction, and ``wire``, which has the binary forms
of values. Text and CSV are read twice over: quickly by columns (pyarrow's CSV reader and casts) where the
data is of the kind on which it and PostgreSQL agree, else record by record, exactly as PostgreSQL does.
"""

from herdpy_server.copy.formats import CopyDataForm, reader, writer
from herdpy_server.copy.target import CopyReader, CopyTarget, CopyWriter

__all__ = ["CopyDataForm", "CopyReader", "CopyTarget", "CopyWriter", "reader", "writer"]
