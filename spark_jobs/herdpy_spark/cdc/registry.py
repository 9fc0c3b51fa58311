"""A client of a schema registry: a schema in, its id out. The wire format is in ``avro``.

The HTTP interface is Confluent's (POST /subjects/SUBJECT/versions), which Apicurio, Karapace and Redpanda
have, too: https://docs.confluent.io/platform/current/schema-registry/develop/api.html.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from herdpy.rpc.address import basic_authorization
from herdpy_spark.cdc.messages import MessagesError

_CONTENT = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_S = 30.0
_MOST_BYTES = 1 << 20


class RegistryError(MessagesError):
    """The registry does not answer, or refuses a schema; the message says which and why."""


class SchemaRegistry:
    """A registry, which is asked once for each subject and schema.

    Args:
        url: http:// or https://, with user:password@ where it wants them.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"a schema registry has a URL such as http://host:8081, not {url!r}")
        host = parts.netloc.rpartition("@")[2]
        self._base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self._headers = {"Content-Type": _CONTENT, "Accept": _CONTENT}
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            self._headers["Authorization"] = basic_authorization(user, password)
        self._ids: dict[tuple[str, str], int] = {}

    def schema_id(self, subject: str, schema: dict[str, Any]) -> int:
        """The id of a schema under a subject; it is registered where it is new.

        Raises:
            RegistryError: no answer, or the schema is not compatible with the subject's.
        """
        text = json.dumps(schema, separators=(",", ":"))
        found = self._ids.get((subject, text))
        if found is None:
            found = self._ids[subject, text] = self._register(subject, text)
        return found

    def _register(self, subject: str, text: str) -> int:
        where = f"{self._base}/subjects/{quote(subject, safe='')}/versions"
        body = json.dumps({"schema": text, "schemaType": "AVRO"}).encode()
        request = urllib.request.Request(where, body, self._headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                number = json.loads(answer.read(_MOST_BYTES))["id"]
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(_MOST_BYTES).decode("utf-8", "replace")
            raise RegistryError(f"{where} refuses the schema ({error.code}): {said}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RegistryError(f"{where} does not answer as a schema registry: {error}") from error
        if not isinstance(number, int):
            raise RegistryError(f"{where} answers with an id that is no number: {number!r}")
        return number
