"""Checks of a table by Great Expectations, in its own environment; test_great_expectations.py starts this.

    python check_orders.py SQLALCHEMY-URL

It prints, as JSON, for each expectation: what it is, whether it held, and what it found.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe


def expectations() -> list[tuple[bool, Any]]:
    """Expectations of the table ``orders``, each with whether its rows meet it."""
    return [
        (True, gxe.ExpectTableRowCountToEqual(value=6)),
        (False, gxe.ExpectTableRowCountToBeBetween(min_value=7, max_value=9)),
        (True, gxe.ExpectTableColumnsToMatchSet(column_set=["id", "customer", "total", "placed", "state"])),
        (True, gxe.ExpectColumnValuesToNotBeNull(column="customer")),
        (False, gxe.ExpectColumnValuesToNotBeNull(column="state")),
        (True, gxe.ExpectColumnValuesToBeUnique(column="id")),
        (False, gxe.ExpectColumnValuesToBeUnique(column="customer")),
        (True, gxe.ExpectColumnValuesToBeInSet(column="state", value_set=["open", "paid"])),
        (False, gxe.ExpectColumnValuesToBeInSet(column="state", value_set=["paid"])),
        (False, gxe.ExpectColumnValuesToBeBetween(column="total", min_value=0, max_value=100)),
        (True, gxe.ExpectColumnMeanToBeBetween(column="total", min_value=30, max_value=40)),
        (True, gxe.ExpectColumnSumToBeBetween(column="total", min_value=210, max_value=211)),
        (False, gxe.ExpectColumnMaxToBeBetween(column="total", max_value=100)),
        (True, gxe.ExpectColumnMedianToBeBetween(column="total", min_value=20, max_value=30)),
        (True, gxe.ExpectColumnStdevToBeBetween(column="total", min_value=1, max_value=100)),
        (True, gxe.ExpectColumnDistinctValuesToEqualSet(column="state", value_set=["open", "paid"])),
        (True, gxe.ExpectColumnValueLengthsToBeBetween(column="customer", min_value=3, max_value=5)),
        (True, gxe.ExpectCompoundColumnsToBeUnique(column_list=["customer", "placed"])),
        (True, gxe.ExpectColumnValuesToBeOfType(column="customer", type_="TEXT")),
        (True, gxe.UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE total < 0")),
    ]


def of_patterns() -> list[tuple[bool, Any]]:
    """Those for which Great Expectations has to know the dialect by its name."""
    return [
        (True, gxe.ExpectColumnValuesToMatchRegex(column="customer", regex="^[A-Z]")),
        (False, gxe.ExpectColumnValuesToMatchRegex(column="customer", regex="^A")),
    ]


def _error(info: dict[str, Any]) -> str | None:
    """What went wrong while it was evaluated: the information is of one metric, or a mapping of several."""
    several = [info] if "raised_exception" in info else list(info.values())
    return next((one["exception_message"] for one in several if one["raised_exception"]), None)


def main(url: str) -> None:
    """Validate the table once, as one suite."""
    context = gx.get_context(mode="ephemeral")
    source = context.data_sources.add_sql(name="herdpy", connection_string=url)
    found = {}
    for schema in ("public", "other"):
        asset = source.add_table_asset(name=schema, table_name="orders", schema_name=schema)
        batch = asset.add_batch_definition_whole_table("whole")
        given = expectations() + (of_patterns() if url.startswith("postgresql") else [])
        suite = context.suites.add(gx.ExpectationSuite(name=schema, expectations=[one for _, one in given]))
        definition = gx.ValidationDefinition(name=schema, data=batch, suite=suite)
        results = context.validation_definitions.add(definition).run().results
        held = {one.expectation_config.id: one for one in results}
        found[schema] = [
            {
                "name": type(one).__name__,
                "holds": holds,
                "held": bool(held[one.id].success),
                "result": held[one.id].result,
                "error": _error(held[one.id].exception_info),
            }
            for holds, one in given
        ]
    print("FOUND " + json.dumps(found, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
