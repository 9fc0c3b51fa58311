"""What a job is: its name, help and arguments, what it does with them, and the errors that it ends with."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdpy.options import nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130


class JobError(Exception):
    """The job cannot go on. ``hint`` says what to do next; ``code`` is the exit code."""

    def __init__(self, message: str, *, hint: str | None = None, code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


class UsageError(JobError):
    """The command asks for what cannot be."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, code=USAGE)


@dataclass
class JobRun:
    """One run of a job.

    Attributes:
        arguments: as the job's parser gave them.
        report: what the report will say; the job adds to it as it learns.
        note: shows a line of progress.
    """

    arguments: argparse.Namespace
    report: dict[str, Any]
    note: Callable[[str], None]
    session: Callable[[], SparkSession]
    _spark: SparkSession | None = field(default=None, repr=False)

    @property
    def spark(self) -> SparkSession:
        """The session; made when it is first needed."""
        if self._spark is None:
            self._spark = self.session()
        return self._spark

    @property
    def dry(self) -> bool:
        """Whether only to say what would be done."""
        return bool(self.arguments.dry_run)


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A program.

    Attributes:
        name: as the command line has it.
        says: what it does; the first paragraph is its summary.
        examples: command lines, without what starts them.
        add_arguments: adds its own arguments to the parser.
        run: does it. JobError and other exceptions end it.
    """

    name: str
    says: str
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[JobRun], None]


URL_VARIABLE = "HERDPY_URL"
USER_VARIABLE = "HERDPY_USER"
PASSWORD_VARIABLE = "HERDPY_PASSWORD"
_RUN_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,47}")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are raised."""

    def error(self, message: str) -> Any:
        """Raise UsageError; of an argument that is not known it says which one is near."""
        unknown = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        near = nearest(unknown[1], self._option_string_actions) if unknown else None
        meant = f"Is {near} meant? " if near else ""
        raise UsageError(message, hint=f"{meant}{self.prog} --help lists them.")


def job_parser(job: SparkJob) -> argparse.ArgumentParser:
    """The parser of a job, with the arguments that all have."""
    examples = "\n".join(f"  herdpy spark {one}" for one in job.examples)
    made = _Parser(
        prog=f"herdpy spark {job.name}",
        description=job.says,
        epilog=f"examples:\n{examples}\n\nexit codes: 0 done; 1 failed, or something was found to be wrong; "
        "2 wrong usage; 130 interrupted",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    job.add_arguments(made)
    database = made.add_argument_group("the database")
    database.add_argument(
        "--url",
        default=os.environ.get(URL_VARIABLE),
        help="herdpy://host:port/tablespace, herdpy+zk://zk1,zk2/root?tablespace=name, or herdpy:///directory"
        f" (${URL_VARIABLE})",
    )
    database.add_argument(
        "--user", default=os.environ.get(USER_VARIABLE), help=f"the role (${USER_VARIABLE})"
    )
    database.add_argument(
        "--password-file",
        metavar="FILE",
        type=Path,
        help=f"its password is the file's first line (else ${PASSWORD_VARIABLE})",
    )
    spark = made.add_argument_group("Spark (spark-submit sets these its own way)")
    spark.add_argument("--master", metavar="URL", help="local[*] where nothing else says")
    spark.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", type=pair, help="a setting; repeatable"
    )
    spark.add_argument(
        "--jars",
        metavar="FILE,...",
        type=names,
        default=(),
        help="jars on the class path, such as a JDBC driver",
    )
    spark.add_argument(
        "--with-delta", action="store_true", help="put Delta Lake on the class path; fetched once with Maven"
    )
    spark.add_argument(
        "--niceness",
        metavar="0..19",
        type=_niceness,
        help="how far Spark stands back behind other processes of this machine (Linux; 10 on a local master)",
    )
    this = made.add_argument_group("this run")
    this.add_argument(
        "--dry-run", action="store_true", help="check and print what would be done; write nothing"
    )
    this.add_argument("--report", metavar="FILE", help="write what was done as JSON; - is standard output")
    this.add_argument("--quiet", action="store_true", help="no progress on standard error")
    this.add_argument(
        "--log-json",
        action="store_true",
        help="progress, errors and what tasks do as lines of JSON with the run's id, on standard error",
    )
    return made


def add_catalog(group: argparse._ArgumentGroup) -> None:
    """Add the arguments that name a catalog of Iceberg."""
    group.add_argument(
        "--catalog", metavar="NAME", help="the catalog of Iceberg: a name in PyIceberg's settings, or any"
    )
    group.add_argument(
        "--catalog-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=pair,
        help="a setting of the catalog, such as type=rest, uri=..., warehouse=...; repeatable",
    )


def check_catalog(arguments: argparse.Namespace) -> None:
    """UsageError for settings of no catalog."""
    if arguments.catalog_option and not arguments.catalog:
        raise UsageError("--catalog-option is for --catalog")


def add_export(group: argparse._ArgumentGroup) -> None:
    """Add the arguments that name an export that is there."""
    group.add_argument(
        "--export",
        required=True,
        metavar="PATH",
        help="directory or URL of the export; with --catalog NAMESPACE.TABLE",
    )
    add_catalog(group)


def source_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The data source's options that say where the database is. UsageError where --url is missing."""
    if not arguments.url:
        raise UsageError(f"--url is missing, and ${URL_VARIABLE} is not set")
    found = {"url": arguments.url}
    if arguments.user:
        found["user"] = arguments.user
    if arguments.password_file is not None and not os.access(arguments.password_file, os.R_OK):
        raise UsageError(f"--password-file: {arguments.password_file} cannot be read")
    if password := password_of(arguments):
        found["password"] = password
    return found


def password_of(arguments: argparse.Namespace) -> str | None:
    """The role's password: the file's first line, or the variable's; None: there is none, or no such file."""
    if arguments.password_file is None:
        return os.environ.get(PASSWORD_VARIABLE)
    try:
        return str(arguments.password_file.read_text().partition("\n")[0])
    except OSError:
        return None


def shown_url(url: str) -> str:
    """A URL without the password that stands in it."""
    return re.sub(r"(//[^/@:]*):[^/@]*@", r"\1:***@", url)


def given(arguments: argparse.Namespace, **options: str) -> dict[str, str]:
    """Options of the data source for those of the named arguments that were given."""
    return {
        option: str(getattr(arguments, name))
        for name, option in options.items()
        if getattr(arguments, name, None) is not None
    }


def pair(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    return name, value


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r}: write different names with commas between them")
    return found


def listed(columns: tuple[str, ...]) -> str:
    """Names of columns as the data source's options take them."""
    return ",".join('"' + name.replace('"', '""') + '"' for name in columns)


def count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number from 1 on")
    return int(text)


def _niceness(text: str) -> int:
    """A whole number from 0 to 19."""
    if not (text.isascii() and text.isdecimal() and int(text) <= 19):
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number from 0 to 19")
    return int(text)


def run_id(text: str) -> str:
    """What a run is called."""
    if not _RUN_ID.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: 1 to 48 letters, digits, dots, dashes and underscores")
    return text
