"""The adapter's version, which dbt shows: HerdPy's own, in the form of Semantic Versioning."""

version = "0.2.0-dev0"
