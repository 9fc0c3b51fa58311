"""Which classes of dbt's test suite for adapters are run: all, but what is left out here with its reason.

dbt's suite is made to be inherited: a class ``BaseX`` has the tests, and mostly a class ``TestX`` takes them
as they are. A class that no other one inherits from is run as it is, and those of ``ALSO``.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path

import dbt.tests.adapter

ROOT = Path(next(iter(dbt.tests.adapter.__path__)))
PACKAGE = "dbt.tests.adapter"

LEFT_OUT = {
    "catalog.relation_types": "materialized views",
    "basic.test_get_catalog_for_single_relation": "a method that the adapter for PostgreSQL lacks, too",
    "dbt_clone.test_dbt_clone:BaseClonePossible": "`dbt clone` makes views, as on PostgreSQL",
    "dbt_clone.test_dbt_clone:BaseCloneSameSourceAndTarget": "it clones a table",
    "empty.test_empty:BaseTestEmptyInlineSourceRef": "its SQL gives a table two names, on PostgreSQL too",
    "empty.test_empty:BaseTestEmptySeedFlag": "dbt 1.11 has no `seed --empty`",
    "empty.test_empty:MetadataWithEmptyFlag::test_run[alter_column_type]":
        "it changes a column `MY_VALUE` that is `my_value`, on PostgreSQL too",
    "ephemeral.test_ephemeral:TestEphemeralMulti": "it compares SQL that has the name of the database in it",
    "ephemeral.test_ephemeral:TestEphemeralNested": "the same",
    "functions.": "CREATE FUNCTION is not supported",
    "materialized_view.": "materialized views are not supported",
    "python_model.": "models in Python, which the adapter for PostgreSQL does not run either",
    "simple_copy.test_copy_uppercase": "its profile is of a PostgreSQL server on port 5432",
    "simple_copy.test_simple_copy:TestSimpleCopyBase::test_simple_copy_with_materialized_views":
        "materialized views",
    "simple_seed.test_seed:TestSimpleSeedWithBOM": "its file is not in the suite's package",
    "utils.test_current_timestamp:BaseCurrentTimestampNaive": "the current timestamp has a zone",
    "utils.test_escape_single_quotes:BaseEscapeSingleQuotesBackslash": "quotes are doubled, as on PostgreSQL",
}  # fmt: skip
"""By the beginning of a class's name, or by the name of one test of it, why it is not run."""

ALSO = ("simple_snapshot.new_record_timestamp_mode:BaseSnapshotNewRecordTimestampMode",)
"""Classes that others inherit from, and that are run nevertheless."""

_DATABASE = re.compile(r"\{+\s*(?:target\.)?database\s*\}+\.(?=\{)")
"""The suite names tables with their database, which HerdPy refuses: ``{database}.{schema}.seed``."""

_OF_POSTGRES = "target.type == 'postgres'"
"""How its models ask whether types are PostgreSQL's."""


def classes():
    """The classes of the suite that have tests, by "package.module:class"."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.name == "__init__.py":
            continue
        imported = importlib.import_module(f"{PACKAGE}.{module}")
        _adapt(imported)
        for name, one in vars(imported).items():
            if inspect.isclass(one) and one.__module__ == imported.__name__ and _has_tests(one):
                found[f"{module}:{name}"] = one
    return found


def _has_tests(one):
    return any(name.startswith("test") and inspect.isfunction(getattr(one, name)) for name in dir(one))


def _adapt(module):
    for name, value in vars(module).items():
        if isinstance(value, str) and not name.startswith("__"):
            setattr(module, name, _adapted(value))
        elif isinstance(value, list) and all(isinstance(one, str) for one in value):
            setattr(module, name, [_adapted(one) for one in value])
        elif inspect.isclass(value) and value.__module__ == module.__name__ and "get_ctx_vars" in vars(value):
            value.get_ctx_vars = _as_of_postgres(value.get_ctx_vars)


def _as_of_postgres(get):
    """What hooks saw: the tests count on the adapter's name."""

    @functools.wraps(get)
    def found(*args, **named):
        seen = get(*args, **named)
        for one in [seen] if isinstance(seen, dict) else seen:
            assert one["target_type"] == "herdpy"
            one["target_type"] = "postgres"
        return seen

    return found


def _adapted(text):
    return _DATABASE.sub("", text).replace(_OF_POSTGRES, "target.type in ('postgres', 'herdpy')")


def chosen():
    """The classes that are run, by their names in the suite."""
    every = classes()
    inherited = {base for one in every.values() for base in one.__mro__[1:]}
    named = [begin.partition("::")[0] for begin in (*LEFT_OUT, *ALSO)]
    unused = [begin for begin in named if not any(name.startswith(begin) for name in every)]
    assert not unused, f"the suite has no {unused}"
    left_out = tuple(begin for begin in LEFT_OUT if "::" not in begin)
    return {
        name: one
        for name, one in every.items()
        if (one not in inherited or name in ALSO) and not name.startswith(left_out)
    }
