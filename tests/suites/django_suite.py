"""Django's own tests, an app at a time, on PostgreSQL and on HerdPy.

    app -> two databases on PostgreSQL, two servers of HerdPy -> runtests.py -> outcomes of tests, twice

Django's tests want two databases; each is an empty one when an app begins. `make django` makes Django's
environment, and the first run fetches Django's source, whose tests its wheel lacks.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg

from tests.suites import cases
from tests.suites.cases import Outcomes
from tests.suites.sources import KEPT, django
from tests.support.postgres import run_server
from tests.support.server_process import RunningServer

ENVIRONMENT = KEPT / "django"
"""Where `make` installs Django and psycopg."""
APPS = (
    *(
        "aggregation",
        "aggregation_regress",
        "annotations",
        "backends",
        "basic",
        "bulk_create",
        "composite_pk",
    ),
    *(
        "constraints",
        "custom_columns",
        "custom_lookups",
        "custom_managers",
        "custom_pk",
        "datatypes",
        "dates",
    ),
    *("datetimes", "db_functions", "db_typecasts", "db_utils", "defer", "defer_regress", "delete"),
    *("delete_regress", "distinct_on_fields", "expressions", "expressions_case", "expressions_window"),
    *("extra_regress", "field_defaults", "filtered_relation", "fixtures", "fixtures_regress"),
    *(
        "force_insert_update",
        "foreign_object",
        "from_db_value",
        "generic_relations",
        "get_earliest_or_latest",
    ),
    *("get_or_create", "indexes", "inspectdb", "introspection", "known_related_objects", "lookup"),
    *("m2m_regress", "m2m_through", "m2m_through_regress", "many_to_many", "many_to_one", "migrations"),
    *("model_fields", "model_forms", "model_formsets", "model_indexes", "model_inheritance"),
    *(
        "model_inheritance_regress",
        "multiple_database",
        "null_fk",
        "null_queries",
        "one_to_one",
        "or_lookups",
    ),
    *(
        "order_with_respect_to",
        "ordering",
        "pagination",
        "postgres_tests",
        "prefetch_related",
        "proxy_models",
    ),
    *("queries", "queryset_pickle", "raw_query", "reverse_lookup", "schema", "select_for_update"),
    *(
        "select_related",
        "select_related_regress",
        "serializers",
        "sessions_tests",
        "string_lookup",
        "timezones",
    ),
    *("transaction_hooks", "transactions", "unmanaged_models", "update", "update_only_fields", "xor_lookups"),
)
COLLATIONS = {"model_fields": {"virtual": "C"}, "inspectdb": {"non_default": "C"}}
"""What stands on HerdPy for a collation of PostgreSQL's, by app and Django's names: a table of each has a
column in Swedish, and HerdPy's columns are sorted by code point, so that the whole app would fail."""
_PATIENCE_S = 1200.0
_Databases = dict[str, tuple[str, str, str, str]]
"""Host, port, user and name of each database that the tests have."""


def play(apps: Sequence[str], found: Path, *, again: bool) -> None:
    """Run apps on both servers, and leave what was found; `again` takes PostgreSQL's from the last run."""
    if not ENVIRONMENT.is_dir():
        sys.exit(f"{ENVIRONMENT} is not there: `make django` installs it")
    with contextlib.ExitStack() as opened:
        host = "" if again else opened.enter_context(_postgres())
        for app in apps or APPS:
            if again:
                theirs = json.loads((found / f"{app}.json").read_text())["theirs"]
            else:
                theirs = _on_postgres(host, app)
            cases.write(found, app, theirs, _on_herdpy(app))
            print(cases.line(app, cases.found(found, [app])[app]), file=sys.stderr, flush=True)


@contextlib.contextmanager
def _postgres() -> Iterator[str]:
    for conninfo in run_server():
        yield str(psycopg.conninfo.conninfo_to_dict(conninfo)["host"])


def _on_postgres(host: str, app: str) -> Outcomes:
    names = ("django_default", "django_other")
    with psycopg.connect(host=host, user="herdpy", dbname="postgres", autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name}")
    default, other = ((host, "", "herdpy", name) for name in names)
    return _run(app, {"default": default, "other": other})


def _on_herdpy(app: str) -> Outcomes:
    with contextlib.ExitStack() as opened:
        scratch = opened.enter_context(tempfile.TemporaryDirectory(prefix="herdpy-django-"))
        servers = [RunningServer(Path(scratch) / name) for name in ("default", "other")]
        for server in servers:
            opened.callback(server.close)
        default, other = (("127.0.0.1", str(one.ready().port), "postgres", "postgres") for one in servers)
        return _run(app, {"default": default, "other": other}, COLLATIONS.get(app, {}))


def _run(app: str, databases: _Databases, collations: Mapping[str, str] = {}) -> Outcomes:
    """Run an app on two databases; what became of its tests, also where the run did not end."""
    with tempfile.TemporaryDirectory(prefix="herdpy-django-") as scratch:
        written, log = Path(scratch) / "outcomes", Path(scratch) / "log"
        written.touch()
        folder = django() / "tests"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                str(path) for path in (Path(__file__).with_name("inside"), folder.parent)
            ),
            "HERDPY_SUITE_DATABASES": json.dumps(databases),
            "HERDPY_SUITE_OUTCOMES": str(written),
            "HERDPY_SUITE_COLLATIONS": json.dumps(collations),
        }
        with log.open("wb") as output, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [
                    *(ENVIRONMENT / "bin" / "python", "runtests.py", app, "--settings=django_settings"),
                    *("--keepdb", "--noinput", "--parallel=1", "--verbosity=0"),
                ],
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=_PATIENCE_S,
                check=False,
            )
        outcomes = {test: (outcome, text) for test, outcome, text in map(json.loads, written.open())}
        return outcomes or {app: ("failed", log.read_text(errors="replace")[-5000:])}
