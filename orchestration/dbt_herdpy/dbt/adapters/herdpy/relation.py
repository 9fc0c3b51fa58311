"""Names of tables and views."""

from dataclasses import dataclass, field

from dbt.adapters.base.relation import InformationSchema
from dbt.adapters.contracts.relation import Policy
from dbt.adapters.postgres.relation import PostgresRelation


@dataclass
class _SchemaAndName(Policy):
    database: bool = False
    schema: bool = True
    identifier: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class HerdPyRelation(PostgresRelation):
    """A table or view, written as schema and name: a connection has one database, its tablespace."""

    include_policy: Policy = field(default_factory=_SchemaAndName)

    def information_schema(self, view_name: str | None = None) -> InformationSchema:
        """A view of `information_schema`, as which it is known in every database."""
        return super().information_schema(view_name).include(database=False)
