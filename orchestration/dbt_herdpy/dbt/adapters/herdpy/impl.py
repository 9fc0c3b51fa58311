"""What dbt asks of HerdPy beyond SQL."""

from dbt.adapters.postgres.impl import PostgresAdapter

from dbt.adapters.herdpy.connections import HerdPyConnectionManager
from dbt.adapters.herdpy.relation import HerdPyRelation


class HerdPyAdapter(PostgresAdapter):
    """dbt's adapter for PostgreSQL, with HerdPy's connections and names."""

    Relation = HerdPyRelation
    ConnectionManager = HerdPyConnectionManager
