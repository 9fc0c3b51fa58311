import herdpy.compiled  # noqa: F401 - it decides whether compiled modules are used
