"""HerdPy's gRPC services: the ``.proto`` files, what is generated from them, and the client's half.

The ``.proto`` files are the reference, for readers in any language. ``*_pb2*.py`` and their stubs are
generated from them by ``make proto``. ``snapshots`` downloads a snapshot. Needs the extra ``server``.
"""
