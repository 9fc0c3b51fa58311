"""Bottom layer: how values become bytes, and nothing else.

Row images (``rows``), order-preserving keys (``keys``) and Arrow batches (``arrow``) are each
behind one module, so that a compiled twin can take its place. The same bytes are what the log
carries, what LMDB holds and what a reader in another language decodes: docs/log-format.md.
"""
