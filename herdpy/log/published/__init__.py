"""Published snapshots: a tablespace's tables as Parquet files, for readers of the log in any process.

Above ``lsn``; a leader's checkpoint is its own, and these are for others. Data passes through so: a server
reads its store at one LSN, ``writer`` puts each table's rows into Parquet files and, last of all, a manifest
beside them; ``shelf`` lists what a place holds and lets old ones go; ``manifest`` is what one says of
itself; ``reading`` opens its files and checks them. Places are URLs, by fsspec (``place``). Whoever applies
the log's entries after a snapshot's LSN to its rows has the tables at any later one. Needs fsspec, pyarrow
and xxhash. The bytes are in docs/published-snapshots.md.
"""

from herdpy.log.place import PlaceError
from herdpy.log.published.manifest import (
    KEY_COLUMN,
    DamagedSnapshotError,
    PublishedManifest,
    SnapshotFile,
    SnapshotTable,
)
from herdpy.log.published.shelf import (
    Dated,
    Retention,
    SnapshotRef,
    choose,
    dated,
    load,
    newest,
    prune,
    remove_others,
    snapshots,
)
from herdpy.log.published.tables import SnapshotWriter, TableWriter, open_file, read_batches

__all__ = [
    "KEY_COLUMN",
    "DamagedSnapshotError",
    "Dated",
    "PlaceError",
    "PublishedManifest",
    "Retention",
    "SnapshotFile",
    "SnapshotRef",
    "SnapshotTable",
    "SnapshotWriter",
    "TableWriter",
    "choose",
    "dated",
    "load",
    "newest",
    "open_file",
    "prune",
    "read_batches",
    "remove_others",
    "snapshots",
]
