"""dbt's adapter `herdpy`: dbt finds it by this package's name, and its macros in `dbt.include.herdpy`.

It is dbt's adapter for PostgreSQL with what differs put over it, in classes here and in macros there. dbt
looks for a macro `herdpy__x`, then for `postgres__x`, then for `default__x`.
"""

from dbt.adapters.base import AdapterPlugin

from dbt.adapters.herdpy.connections import HerdPyConnectionManager, HerdPyCredentials
from dbt.adapters.herdpy.impl import HerdPyAdapter
from dbt.adapters.herdpy.relation import HerdPyRelation
from dbt.include import herdpy

__all__ = ["HerdPyAdapter", "HerdPyConnectionManager", "HerdPyCredentials", "HerdPyRelation", "Plugin"]

Plugin = AdapterPlugin(
    adapter=HerdPyAdapter,
    credentials=HerdPyCredentials,
    include_path=herdpy.PACKAGE_PATH,
    dependencies=["postgres"],
)
