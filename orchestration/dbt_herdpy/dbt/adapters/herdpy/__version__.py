"""The adapter's version, which dbt shows: HerdPy's own."""

version = "0.2.0.dev0"
