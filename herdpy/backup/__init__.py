"""A repository of backups: images of stores, the log's entries, and what belongs together.

Above ``log``; below the server, which writes backups, and the command line, which reads them. Data passes
through so: bytes become a part (``part``: compressed, encrypted, checksummed, bound to its name), a part is a
file of a ``Repository`` (a place by ``herdpy.log.place``). ``pages`` cuts an image of a store into parts and
puts it together again; ``archive`` keeps the log's entries; ``manifest`` is what a backup says of itself, and
is written last: without it there is no backup.

Needs the extra ``backup``. The layout is in docs/backup-format.md.
"""
