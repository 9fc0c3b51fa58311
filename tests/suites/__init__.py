"""Other people's suites, as a measure of how far HerdPy is PostgreSQL."""
