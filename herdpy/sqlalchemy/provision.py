"""What SQLAlchemy's test suites must know of a HerdPy database; loaded by them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import inspect
from sqlalchemy.dialects.postgresql import ENUM, DropEnumType, insert
from sqlalchemy.testing.provision import (
    drop_all_schema_objects_post_tables,
    generate_driver_url,
    set_default_schema_on_connection,
    temp_table_keyword_args,
    upsert,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


@generate_driver_url.for_db("herdpy")  # type: ignore[untyped-decorator, unused-ignore]
def _generate_driver_url(url: URL, driver: str, query_str: str | None) -> URL:
    new = url.set(drivername="herdpy" if driver == "herdpy" else f"herdpy+{driver}")
    return new.update_query_string(query_str) if query_str else new


@temp_table_keyword_args.for_db("herdpy")  # type: ignore[untyped-decorator, unused-ignore]
def _temp_table_keyword_args(cfg: Any, eng: Any) -> dict[str, Any]:
    return {"prefixes": ["TEMPORARY"]}


@set_default_schema_on_connection.for_db("herdpy")  # type: ignore[untyped-decorator, unused-ignore]
def _set_default_schema(cfg: Any, dbapi_connection: Any, schema_name: str) -> None:
    before, dbapi_connection.autocommit = dbapi_connection.autocommit, True
    dbapi_connection.execute(f"SET SESSION search_path = '{schema_name}'")
    dbapi_connection.autocommit = before


@drop_all_schema_objects_post_tables.for_db("herdpy")  # type: ignore[untyped-decorator, unused-ignore]
def _drop_enums(cfg: Any, eng: Any) -> None:
    inspector = inspect(eng)
    with eng.begin() as connection:
        for enum in inspector.get_enums("*"):
            connection.execute(DropEnumType(ENUM(name=enum["name"], schema=enum["schema"])))


@upsert.for_db("herdpy")  # type: ignore[untyped-decorator, unused-ignore]
def _upsert(
    cfg: Any,
    table: Any,
    returning: Any,
    *,
    set_lambda: Any = None,
    sort_by_parameter_order: bool = False,
    index_elements: Any = None,
) -> Any:
    statement = insert(table)
    if set_lambda is None:
        statement = statement.on_conflict_do_nothing()
    else:
        statement = statement.on_conflict_do_update(
            index_elements=inspect(table).selectable.primary_key
            if index_elements is None
            else index_elements,
            set_=set_lambda(statement.excluded),
        )
    return statement.returning(*returning, sort_by_parameter_order=sort_by_parameter_order)
