"""A store of objects as S3 has them, on a port of this machine: moto's, in a thread."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECRET = "s3cr3t-of-the-store"


@contextmanager
def s3_store(bucket: str) -> Iterator[None]:
    """The bucket, empty, for s3:// URLs of this process and of its Spark's tasks."""
    from fsspec.config import conf
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server: Any = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    before = conf.get("s3")
    conf["s3"] = {
        "key": "tester",
        "secret": SECRET,
        "endpoint_url": f"http://{host}:{port}",
        "client_kwargs": {"region_name": "us-east-1"},
    }
    try:
        store_files().call_s3("create_bucket", Bucket=bucket)
        yield
    finally:
        if before is None:
            del conf["s3"]
        else:
            conf["s3"] = before
        server.stop()


def store_files() -> Any:
    """The store's file system."""
    import fsspec

    return fsspec.filesystem("s3", use_listings_cache=False)
