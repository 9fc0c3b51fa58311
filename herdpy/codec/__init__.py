"""The bottom layer: values become bytes. ``rows`` makes row images, ``keys`` keys, ``arrow*`` batches.

The same bytes are what the log carries, what LMDB holds and what a reader in another language decodes:
docs/log-format.md. Only the ``arrow`` modules need numpy and pyarrow.
"""
