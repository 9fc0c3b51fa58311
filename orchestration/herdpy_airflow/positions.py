"""Whether a position of the log has been reached: by a server, by all replicas, by a snapshot, by an export.

place -> the query that says how far it is (of an export: its manifest) -> texts -> reached(texts, position)

Nothing here imports Airflow, and nothing waits: the sensor and its trigger do, each its own way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from herdpy.log.lsn import LSN

EXPORT = "export"
MANIFEST_FORMAT = 1
#: What says how far each place is: one text a row.
QUERIES = {
    "server": "SELECT applied FROM herdpy.log_status WHERE tablespace = current_database()",
    "replicas": "SELECT applied FROM herdpy.replicas WHERE tablespace = current_database() AND is_wanted"
    " UNION ALL SELECT applied FROM herdpy.log_status"
    " WHERE tablespace = current_database() AND state = 'alone'",
    "snapshot": "SELECT snapshot FROM herdpy.tablespaces WHERE name = current_database()",
}
PLACES = (*QUERIES, EXPORT)


def reached(found: Iterable[str | None], position: LSN) -> bool:
    """Whether each of the positions found is at or behind ``position``; False where none was found."""
    all_found = list(found)
    return bool(all_found) and all(one is not None and LSN.parse(one) >= position for one in all_found)


def exported(directory: str) -> list[str]:
    """The position of the newest generation of an export; none where there is no export yet.

    Its manifest is read as docs/spark.md describes it, so that a worker needs nothing of Spark's half.

    Raises:
        ValueError: the directory is not a path of this machine; the manifest is of another format.
    """
    if "://" in directory:
        raise ValueError(f"{directory} is not a path of this machine: only those are looked at")
    manifests = sorted(Path(directory, "_herdpy").glob("manifest-*.json"))
    if not manifests:
        return []
    newest = json.loads(manifests[-1].read_bytes())
    if newest.get("format") != MANIFEST_FORMAT:
        raise ValueError(
            f"{manifests[-1]} has format {newest.get('format')}, which this version does not read"
        )
    return [str(newest["lsn"])]
