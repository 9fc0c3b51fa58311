"""A client for Apache BookKeeper; it imports nothing else of herdpy. See DESIGN.md and docs/bookkeeper.md."""
