"""Jobs layer: whole programs over the data source, for ``spark-submit`` and ``herdpy spark``.

    arguments -> running (exit code, report, progress) -> one of the jobs -> the data source

``JOBS`` names them. Each is a module with ``JOB``; as a script it runs itself. Importing this package imports
neither PySpark nor the data source, so that ``--help`` works, and quickly, where only the driver is
installed.
"""

from __future__ import annotations

#: Name of each job (as the command line has it) -> its module in this package.
JOBS = {
    "bulk-load": "bulk_load",
    "export": "export",
    "changes": "changes",
    "verify": "verify",
    "compact": "compact",
    "archive": "archive",
}

__all__ = ["JOBS"]
