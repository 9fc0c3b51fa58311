"""``herdpy spark``: the jobs of the data pipeline, run by a Spark of this process.

Arguments are the jobs' own (argparse, as ``spark-submit`` needs them), so they are handed on as they are.
"""

from __future__ import annotations

import argparse
import os
import sys

import typer

from herdpy.cli.errors import USAGE, CliError, without_package
from herdpy.cli.target import VARIABLE, spelled_out

#: All that comes after the name is the job's, its --help too.
CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

_SUMMARIES = {
    "bulk-load": "CSV, JSON, Parquet or another database's table into a table, all or nothing",
    "export": "a table or a query to Parquet, CSV, Delta or Iceberg: full, as of, or incremental",
    "changes": "the change feed of a table into Parquet, JSON, Delta or the console",
    "verify": "compare an export with its manifest, and with the table at its position",
    "compact": "join the small files of an export, at its position",
    "archive": "old ledgers of the log to Parquet, before they are trimmed",
}


def spark_command(context: typer.Context) -> None:
    """Run a job of the data pipeline on Spark: bulk-load, export, changes, verify, compact,
    archive.

    Without --master Spark runs in this process, with all its cores. `herdpy spark NAME --help` tells a job's
    arguments; docs/spark.md how to run the same with spark-submit.

    \b
    Examples:
      herdpy spark export --url herdpy://db1/shop --table orders --to /exports/orders
      herdpy spark bulk-load --url herdpy://db1/shop --table planes planes.csv --null NA
      herdpy spark verify --url herdpy://db1/shop --export /exports/orders
    """
    arguments = context.args
    if not arguments or arguments[0] in {"-h", "--help"}:
        sys.stdout.write(_overview())
        raise typer.Exit(0 if arguments else USAGE)
    if arguments[0] not in _SUMMARIES:
        raise CliError(
            f"there is no job {arguments[0]!r}", hint=f"There are {', '.join(_SUMMARIES)}.", code=USAGE
        )
    try:
        from herdpy_spark.jobs.running import job_named, main
    except ModuleNotFoundError as error:
        raise without_package(error, "spark") or error from error

    raise typer.Exit(main(job_named(arguments[0]), _with_url(arguments[1:])))


def _with_url(arguments: list[str]) -> list[str]:
    """The jobs know URLs only: what is a profile's name becomes its URL."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--url")
    parser.add_argument("--profile")
    try:
        found, rest = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise CliError(str(error), code=USAGE) from error
    default = None if found.profile is not None else os.environ.get(VARIABLE)
    url = spelled_out(found.url or default, found.profile)
    return rest if url is None else ["--url", url, *rest]


def _overview() -> str:
    lines = "\n".join(f"  {name:<10} {says}" for name, says in _SUMMARIES.items())
    return (
        "Usage: herdpy spark NAME [ARGUMENTS]...\n\n"
        "Run a job of the data pipeline on Spark, in this process unless --master names another.\n\n"
        f"Jobs:\n{lines}\n\n"
        "herdpy spark NAME --help shows a job's arguments, with examples.\n"
    )
