"""The one place that holds HerdPy's version."""

__version__ = "0.2.0.dev0"
