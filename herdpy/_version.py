"""The one place that holds HerdPy's version."""

__version__ = "0.1.0"
