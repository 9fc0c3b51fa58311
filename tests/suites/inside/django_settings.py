"""Settings of Django's own tests, read in its environment: two databases (HERDPY_SUITE_DATABASES).

Each of them is there already, and is kept: nothing makes or drops databases.
"""

from __future__ import annotations

import json
import os
from typing import Any


def _database(alias: str) -> dict[str, Any]:
    host, port, user, name = json.loads(os.environ["HERDPY_SUITE_DATABASES"])[alias]
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": host,
        "PORT": port,
        "USER": user,
        "NAME": name,
        "TEST": {"NAME": name},
    }


DATABASES = {alias: _database(alias) for alias in ("default", "other")}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "django_runner.Runner"
