"""A store of objects as S3 has them, on a port of this machine: moto's, in a thread.

Credentials are in fsspec's configuration of this process, and in the environment for those that it starts.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

SECRET = "s3cr3t-of-the-store"
_ENVIRONMENT = "FSSPEC_S3"  # which fsspec reads when it is imported


@contextmanager
def s3_store(bucket: str) -> Iterator[None]:
    """The bucket, empty, for s3:// URLs of this process, its Spark's tasks, and processes that it starts."""
    from fsspec.config import conf
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server: Any = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "key": "tester",
        "secret": SECRET,
        "endpoint_url": f"http://{host}:{port}",
        "client_kwargs": {"region_name": "us-east-1"},
    }
    try:
        with patch.dict(conf, {"s3": options}), patch.dict(os.environ, {_ENVIRONMENT: json.dumps(options)}):
            store_files().call_s3("create_bucket", Bucket=bucket)
            yield
    finally:
        server.stop()


def store_files() -> Any:
    """The store's file system."""
    import fsspec

    return fsspec.filesystem("s3", use_listings_cache=False)
