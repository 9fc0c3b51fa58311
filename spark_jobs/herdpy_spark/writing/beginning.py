"""Beginning a load: the DataFrame's columns are found in the table, and looked at before any row is. Above
``loads`` and ``conforming``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdpy_spark.writing.conforming import matched
from herdpy_spark.writing.errors import LoadError
from herdpy_spark.writing.plan import WriteMode, WriteOutcome, WritePlan
from herdpy_spark.writing.task import conformer_of

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_spark.writing.loads import LoadService

_NO_SUCH_COLUMN = "42703"


def begin(
    loads: LoadService, load_id: str, table: str, mode: WriteMode, schema: pa.Schema
) -> WritePlan | WriteOutcome:
    """What to stage of a DataFrame with this schema, or what the load came to when it was published before.

    Raises:
        LoadError: the server says no.
        ColumnError: columns are not the table's, or cannot be stored there.
    """
    plan = _begun(loads, load_id, table, mode, schema.names)
    if isinstance(plan, WriteOutcome):
        return plan
    definition = loads.definition(table)
    if definition is not None and definition.id == plan.table_id:
        plan = plan.of_table(definition)
    conformer_of(plan).check(schema)
    return plan


def _begun(
    loads: LoadService, load_id: str, table: str, mode: WriteMode, names: Sequence[str]
) -> WritePlan | WriteOutcome:
    """Begin with the table's own names for the columns: Spark's may differ in case."""
    try:
        return loads.begin(load_id, table, mode, names)
    except LoadError as error:
        definition = loads.definition(table) if error.sqlstate == _NO_SUCH_COLUMN else None
        if definition is None:
            raise
        own = [definition.columns[at].name for at in definition.visible]
    return loads.begin(load_id, table, mode, list(matched(names, own)))
