"""The hook: HerdPy's driver and SQLAlchemy's dialect behind an Airflow connection of type ``herdpy``.

common.sql's hook does the rest: ``get_records``, ``run``, ``insert_rows``, ``test_connection``, data frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.sql.dialects.dialect import Dialect
from airflow.providers.common.sql.hooks.sql import DbApiHook

import herdpy
from herdpy_airflow.addresses import ConnectionAddress, address

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


class HerdPyInserts(Dialect):
    """The statements of ``insert_rows``: PostgreSQL's quotes, and ON CONFLICT for ``replace``."""

    def escape_word(self, word: str) -> str:
        """A column's name as SQL takes it: in quotes where it needs them and has none."""
        if len(word) > 1 and word.startswith('"') and word.endswith('"'):
            return word
        plain = not (
            self.escape_column_names or word.casefold() in self.reserved_words or self.pattern.search(word)
        )
        return word if plain else '"' + word.replace('"', '""') + '"'

    def generate_replace_sql(self, table: str, values: Any, target_fields: Any, **kwargs: Any) -> str:
        """INSERT that updates the row which has the key: of ``replace_index``, or else the primary key.

        Raises:
            ValueError: no columns are named, or the table has no key.
        """
        if not target_fields:
            raise ValueError("replace needs target_fields: the columns that the rows have")
        index = kwargs.get("replace_index") or self.get_primary_keys(table)
        key = [index] if isinstance(index, str) else list(index or ())
        if not key:
            raise ValueError(f"{table} has no primary key, and replace_index names none")
        changed = [self.escape_word(one) for one in target_fields if one not in key]
        action = (
            f"UPDATE SET {', '.join(f'{one} = excluded.{one}' for one in changed)}" if changed else "NOTHING"
        )
        insert = self.generate_insert_sql(table, values, target_fields)
        return f"{insert} ON CONFLICT ({', '.join(map(self.escape_word, key))}) DO {action}"


class HerdPyHook(DbApiHook):
    """Connections to HerdPy.

    Attributes:
        herdpy_conn_id: the Airflow connection.
        schema: the tablespace, where it is another than the connection's; operators' ``database`` sets it.
        commit_position: where in the log the newest commit of ``run`` is; None where it wrote nothing.
    """

    conn_name_attr = "herdpy_conn_id"
    default_conn_name = "herdpy_default"
    conn_type = "herdpy"
    hook_name = "HerdPy"
    supports_autocommit = True
    supports_executemany = True

    def __init__(self, *args: Any, schema: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, schema=schema, **kwargs)
        self.schema = schema
        self.commit_position: str | None = None

    @property
    def address(self) -> ConnectionAddress:
        """Where the connection leads. AddressError where its fields do not say."""
        return address_of(self.connection, self.schema)

    def get_conn(self) -> Any:
        """A new connection of HerdPy's driver, in a transaction from its first statement on."""
        there = self.address
        role: dict[str, Any] = dict(there.role)
        return herdpy.connect(there.driver_url, **role)

    def get_uri(self) -> str:
        """SQLAlchemy's URL, password and all."""
        return self.address.sqlalchemy_url

    @property
    def sqlalchemy_url(self) -> URL:
        """The URL of an engine."""
        from sqlalchemy.engine import make_url

        return make_url(self.get_uri())

    @property
    def dialect_name(self) -> str:
        """Whose reserved words count: PostgreSQL's."""
        return "postgresql"

    @cached_property
    def dialect(self) -> Dialect:
        """How INSERT is written."""
        return HerdPyInserts(self)

    def get_db_log_messages(self, conn: Any) -> None:
        """Keep the position of what was committed; common.sql calls this after each ``run``."""
        self.commit_position = conn.info.commit_position

    @classmethod
    def _serialize_cells(cls, row: Iterable[Any], conn: Any = None) -> tuple[Any, ...]:
        # The driver writes values itself. As text, bytes and arrays would be others.
        return tuple(row)


def address_of(connection: Any, tablespace: str | None = None) -> ConnectionAddress:
    """The address of an Airflow connection, in another tablespace where one is given."""
    return address(
        host=connection.host,
        port=connection.port,
        login=connection.login,
        password=connection.password,
        schema=tablespace or connection.schema,
        extra=connection.extra_dejson,
    )
