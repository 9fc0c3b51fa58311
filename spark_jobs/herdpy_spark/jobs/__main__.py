"""``python -m herdpy_spark.jobs NAME ...``; ``--path NAME`` tells the script for spark-submit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from herdpy_spark.jobs import JOBS
from herdpy_spark.jobs.job import DONE, USAGE, UsageError
from herdpy_spark.jobs.running import job_named, main

_USAGE = f"usage: python -m herdpy_spark.jobs [--path] NAME ...\nNAME is one of {', '.join(JOBS)}"


def run(argv: Sequence[str]) -> int:
    """Run the job whose name comes first; the exit code."""
    if not argv or argv[0] in {"-h", "--help"}:
        print(_USAGE)
        return DONE if argv else USAGE
    try:
        if argv[0] == "--path":
            module = JOBS.get(argv[1] if len(argv) == 2 else "")
            if module is None:
                raise UsageError(_USAGE)
            print(Path(__file__).with_name(f"{module}.py"))
            return DONE
        return main(job_named(argv[0]), argv[1:])
    except UsageError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return USAGE


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
