"""``herdpy import`` and ``herdpy export``: their options, and the summaries that they show.

``importer`` and ``exporter`` do the work, and are imported when a command runs: they need pyarrow.
"""

from __future__ import annotations

import json as jsonlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdpy.cli import target
from herdpy.cli.errors import USAGE, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar, speed
from herdpy.cli.source import (
    BLOCK_BYTES,
    FileFormat,
    OnError,
    ReadOptions,
    RecordSource,
    format_of,
)
from herdpy.cli.target import Place, TargetDatabase

if TYPE_CHECKING:  # these need pyarrow, which is asked for first
    from herdpy.cli import exporter, importer

_FormatOption = Annotated[
    FileFormat | None, typer.Option("--format", help="What the file is; by its name if not given.")
]
_USER = re.compile(r"//[^/]*@")
_JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
_FileArgument = Annotated[Path, typer.Argument(help="CSV, Parquet or JSON lines; .csv.gz and .jsonl.gz too.")]
_TableOption = Annotated[str, typer.Option("-t", "--table", help="Where the rows go.")]
_CreateOption = Annotated[bool, typer.Option("--create", help="Make the table; it must not exist.")]
_AppendOption = Annotated[bool, typer.Option("--append", help="Add to the table; it must exist.")]
_ReplaceOption = Annotated[bool, typer.Option("--replace", help="Drop the table first.")]
_KeyOption = Annotated[
    str, typer.Option("--key", metavar="COL,...", help="The primary key of a table that is made.")
]
_TypesOption = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="COL=TYPE", help="A column's SQL type, instead of the inferred one."),
]
_NullOption = Annotated[
    list[str] | None,
    typer.Option("--null", metavar="TEXT", help="Means NULL in CSV, as an empty field does."),
]
_DelimiterOption = Annotated[str, typer.Option("--delimiter", help="The separator of CSV's fields.")]
_HeaderOption = Annotated[
    bool, typer.Option("--header/--no-header", help="Whether CSV begins with column names.")
]
_ResumeOption = Annotated[
    bool | None,
    typer.Option("--resume/--restart", help="Go on with an interrupted import, or begin it again."),
]
_OnErrorOption = Annotated[
    OnError, typer.Option("--on-error", help="At a bad row, stop or go on without it.")
]
_RejectsOption = Annotated[
    Path | None,
    typer.Option("--rejects", metavar="FILE", help="Where bad rows go; FILE.rejects.jsonl if not given."),
]
_BlockBytesOption = Annotated[int, typer.Option("--block-bytes", hidden=True)]


def import_command(
    url: Place,
    file: _FileArgument,
    table: _TableOption,
    format: _FormatOption = None,
    create: _CreateOption = False,
    append: _AppendOption = False,
    replace: _ReplaceOption = False,
    key: _KeyOption = "",
    types: _TypesOption = None,
    null: _NullOption = None,
    delimiter: _DelimiterOption = ",",
    header: _HeaderOption = True,
    resume: _ResumeOption = None,
    on_error: _OnErrorOption = OnError.STOP,
    rejects: _RejectsOption = None,
    block_bytes: _BlockBytesOption = BLOCK_BYTES,
    json: _JsonOption = False,
) -> None:
    """Load a file into a table.

    The table is made when it is not there, its column types inferred from the file. Rows go in
    batches, a transaction each, and each transaction records how far the file has been read (in the
    table herdpy_imports): an import that was interrupted, however it was, goes on exactly there when
    the same command is run again.

    \b
    Examples:
      herdpy import ./flights airlines.csv --table airlines --key carrier
      herdpy import ./flights planes.csv -t planes --key tailnum --null NA
      herdpy import ./flights planes.csv -t planes --type year=integer
      herdpy import ./flights more.parquet -t flights --append
      herdpy import ./flights dirty.csv -t flights --on-error skip
    """
    mode = _mode(create=create, append=append, replace=replace)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise CliError("--delimiter is one character", code=USAGE)
    chosen = _types(types or [])
    kind = format_of(file, format)
    if not file.is_file():
        raise CliError(f"cannot read {file}: there is no such file", code=USAGE)
    found = target.parse(url, servers=True)
    needed("pyarrow")
    needed("msgspec")
    from herdpy.cli import importer

    source = importer.open_source(
        file, kind, ReadOptions(delimiter, header, ("", *(null or [])), block_bytes)
    )

    if on_error is OnError.SKIP and rejects is None:
        rejects = file.with_name(f"{file.name}.rejects.jsonl")
    plan = importer.ImportPlan(
        file,
        table,
        importer.ImportMode(mode) if mode else importer.ImportMode.EITHER,
        tuple(name.strip() for name in key.split(",") if name.strip()),
        chosen,
        resume,
        on_error,
        rejects if on_error is OnError.SKIP else None,
    )
    reading = {
        "format": kind,
        "delimiter": delimiter,
        "header": header,
        "null": null or [],
        "names": source.names,
    }
    _import(found, source, plan, reading, json=json)


def _mode(**flags: bool) -> str | None:
    """The one that was given of the flags that say what becomes of the table."""
    given = [name for name, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise CliError(f"--{given[0]} and --{given[1]} exclude each other", code=USAGE)
    return given[0] if given else None


def _import(
    found: TargetDatabase,
    source: RecordSource,
    plan: importer.ImportPlan,
    reading: dict[str, Any],
    *,
    json: bool,
) -> None:
    """Import what is left, and tell of it. ``reading``: how the file is read, part of what it is known by."""
    from herdpy.cli import importer

    connection = target.connect(found, autocommit=False)
    try:
        running = importer.Importer(
            connection, source, plan, importer.identity(plan.path, plan.table, reading)
        )
        with Bar(f"{plan.path.name} -> {plan.table}") as bar:

            def on_batch(progress: importer.ImportProgress) -> None:
                bar.update(*source.progress(), progress.at.rows - running.resumed_at)

            result = running.run(on_batch)
    except KeyboardInterrupt:
        print_note("Interrupted: run the same command again to go on.")
        raise
    finally:
        connection.close()
    summary = {
        "table": plan.table,
        "rows": result.loaded,
        "rejected": result.rejected,
        "resumed_at": running.resumed_at,
        "seconds": round(bar.seconds, 3),
        "rejects_file": str(plan.rejects) if result.rejected else None,
    }
    pace = speed(result.at.rows - running.resumed_at, bar.seconds)
    _print_result(summary, json, f"{plan.table}: {pace}", running.resumed_at, result.loaded)
    if result.rejected:
        print_note(f"{result.rejected:,} records were rejected: see {plan.rejects}")


def export_command(
    url: Place,
    what: Annotated[list[str], typer.Argument(metavar="[TABLE] FILE", help="The table, and where it goes.")],
    query: Annotated[
        str | None, typer.Option("--query", metavar="SQL", help="Export what this gives instead of a table.")
    ] = None,
    format: _FormatOption = None,
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="Whether CSV begins with column names.")
    ] = True,
    resume: Annotated[
        bool | None,
        typer.Option("--resume/--restart", help="Go on with an interrupted export, or begin it again."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it exists.")] = False,
    save_rows: Annotated[int, typer.Option("--save-rows", hidden=True)] = 500_000,
    json: _JsonOption = False,
) -> None:
    """Write a table, or what a query gives, to a file.

    The rows are those of one moment (one statement, one snapshot). They go to FILE.partial, which
    becomes FILE when it is whole. An interrupted export of a table goes on after the last key that is
    on disk; its rest is then of the moment of the second run.

    \b
    Examples:
      herdpy export ./flights flights flights.parquet
      herdpy export ./flights airlines airlines.csv --overwrite
      herdpy export ./flights --query "SELECT * FROM planes LIMIT 9" few.jsonl
    """
    if len(what) != (1 if query else 2):
        raise CliError("name a table and a file, or --query SQL and a file", code=USAGE)
    path = Path(what[-1])
    kind = format_of(path, format)
    if path.exists() and not overwrite:
        raise CliError(f"{path} exists already", hint="--overwrite replaces it.", code=USAGE)
    if query and resume:
        raise CliError("only exports of a table can be continued", code=USAGE)
    found = target.existing(url, servers=True)
    needed("pyarrow")
    from herdpy.cli import exporter

    plan = exporter.ExportPlan(
        path, kind, None if query else what[0], query, header, resume, save_rows=max(save_rows, 1)
    )
    _export(found, plan, json=json)


def _export(found: TargetDatabase, plan: exporter.ExportPlan, *, json: bool) -> None:
    """Export what is left, and tell of it."""
    from herdpy.cli import exporter

    connection = target.connect(found, autocommit=True)
    try:
        running = exporter.Exporter(connection, plan, _place(found), found if found.is_remote else None)
        with Bar(f"{'query' if plan.query else plan.table} -> {plan.path.name}") as bar:
            running.run(lambda rows, total: bar.update(rows, total, rows - running.resumed_at))
    except KeyboardInterrupt:
        if not plan.query:
            print_note("Interrupted: run the same command again to go on.")
        raise
    finally:
        connection.close()
    summary: dict[str, Any] = {
        "file": str(plan.path),
        "rows": running.rows,
        "resumed_at": running.resumed_at,
        "seconds": round(bar.seconds, 3),
    }
    pace = speed(running.rows - running.resumed_at, bar.seconds)
    _print_result(summary, json, f"{plan.path}: {pace}", running.resumed_at, running.rows)


def _place(found: TargetDatabase) -> str:
    """What a file that lies about may say of where a database is: no user, no password."""
    return _USER.sub("//", found.url).partition("?")[0] if found.is_remote else str(found.path)


def _types(given: list[str]) -> dict[str, str]:
    chosen = {}
    for one in given:
        name, equals, kind = one.partition("=")
        if not (name and equals and kind.strip()) or not all(c.isalnum() or c in " (),_" for c in kind):
            raise CliError(f"--type {one}: write COLUMN=TYPE, such as price=numeric(10,2)", code=USAGE)
        chosen[name] = kind
    return chosen


def _print_result(summary: dict[str, Any], json: bool, text: str, resumed_at: int, total: int) -> None:
    if json:
        sys.stdout.write(jsonlib.dumps(summary) + "\n")
        return
    print_note(text + (f"; continued after {resumed_at:,}, {total:,} in all" if resumed_at else ""))
