"""A profile of type `herdpy`, and the connections that are made by it: psycopg2's, to a HerdPy server."""

from dataclasses import dataclass

from dbt.adapters.postgres.connections import PostgresConnectionManager, PostgresCredentials


@dataclass
class HerdPyCredentials(PostgresCredentials):
    """Where a server is and who comes: as for PostgreSQL, but a server on loopback needs no password."""

    password: str = ""

    @property
    def type(self) -> str:
        """The name of the adapter."""
        return "herdpy"


class HerdPyConnectionManager(PostgresConnectionManager):
    """Connections by PostgreSQL's protocol, under the name of this adapter."""

    TYPE = "herdpy"
