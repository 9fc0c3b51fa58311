"""``herdpy snapshot rescue``: a database made of what a replica of a cluster has on its disk.

For replicas that are set aside, quarantined, or whose cluster is gone: what they have can be read then, and
put where it is wanted.
"""

from __future__ import annotations

import json as jsonlib
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from herdpy.cli import target
from herdpy.cli.errors import USAGE, CliError
from herdpy.cli.target import JsonOption

_FOLDER = "rescued"


def rescue_command(
    replica: Annotated[
        Path,
        typer.Argument(metavar="REPLICA", help="Its directory: .../tablespaces/NAME, or .../kept/NAME-..."),
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The new database: an empty or new directory.")
    ],
    json: JsonOption = False,
) -> None:
    """Make a database in a directory of what a replica of a cluster has on its disk.

    The replica is only read, and may be one that was set aside or quarantined. What it had applied and had
    not brought to its disk yet is not there.

    \b
    Examples:
      herdpy snapshot rescue /srv/herdpy/kept/herdpy-17-4711 ./rescued
      herdpy sql ./rescued -c "SELECT count(*) FROM item"
    """
    stores = target.needed("herdpy_server.store")
    seeding = target.needed("herdpy_server.tablespace.seeding")
    source, directory = replica.expanduser() / "store", directory.expanduser().absolute()
    if not (source / "data.mdb").is_file():
        raise CliError(f"{replica} is no replica: it has no store/data.mdb", code=USAGE)
    folder = directory / _FOLDER
    seeding.check_room(directory, frozenset({_FOLDER}))
    shutil.rmtree(folder, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        store = stores.Store.open(source, read_only=True)
    except stores.StoreDamagedError as error:
        raise CliError(str(error), hint="Try the replica of another node.") from error
    try:
        lsn = store.copy(folder)
    finally:
        store.close()
    seeding.seed(directory, folder / "data.mdb", lsn)
    shutil.rmtree(folder)
    if json:
        sys.stdout.write(jsonlib.dumps({"directory": str(directory), "lsn": str(lsn)}) + "\n")
    else:
        sys.stdout.write(f"{directory} is a database as of {lsn}.\n")
