"""What Airflow's provider manager reads: the connection type, and where hooks, operators and the rest are."""

from __future__ import annotations

from typing import Any

_NAME = "HerdPy"


def get_provider_info() -> dict[str, Any]:
    """The provider's description, of Airflow's schema for it."""
    return {
        "package-name": "herdpy",
        "name": _NAME,
        "description": "HerdPy: a SQL database that is a replicated state machine over a write-ahead log.",
        "integrations": [{"integration-name": _NAME, "tags": ["software"]}],
        "connection-types": [
            {
                "connection-type": "herdpy",
                "hook-class-name": "herdpy_airflow.hooks.HerdPyHook",
                "hook-name": _NAME,
                "ui-field-behaviour": {
                    "relabeling": {"schema": "Tablespace", "login": "User"},
                    "placeholders": {
                        "host": "db1:5432,db2:5432,db3:5432",
                        "schema": "herdpy",
                        "extra": '{"sslmode": "require"}',
                    },
                },
            }
        ],
        "hooks": [{"integration-name": _NAME, "python-modules": ["herdpy_airflow.hooks"]}],
        "operators": [{"integration-name": _NAME, "python-modules": ["herdpy_airflow.operators"]}],
        "sensors": [{"integration-name": _NAME, "python-modules": ["herdpy_airflow.sensors"]}],
        "triggers": [{"integration-name": _NAME, "python-modules": ["herdpy_airflow.triggers"]}],
    }
