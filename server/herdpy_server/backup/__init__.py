"""Backups of tablespaces: making, archiving, restoring. Above the store and the log, below servers.

The format of a repository is ``herdpy.backup``'s.
"""
