"""Backups of tablespaces: making, archiving, restoring. Above the store and the log, below servers.

The format of a repository is ``herdpy.backup``'s. Making a backup: ``image`` copies one state of LMDB's file
while others write it, ``log_part`` archives the log from there on, ``making`` puts both together and writes
the manifest. ``child`` does all of that in a process of its own, which ``process`` starts and speaks with
(``messages``). ``restoring`` makes a database of a backup again.

The archive: ``archiver`` is the server's half; ``archiver_child`` is the process that writes the entries of
one log (``archiver_messages``).
"""
