"""kill -9 of the server, and a new one under its URL, while clients write: nothing lost, nothing twice."""

from __future__ import annotations

import signal
import socket
import threading

import pytest

import herdpy
from tests.support.server_process import RunningServer


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


KILLS = 2
WORKERS = 3


@pytest.mark.timeout(120)
def test_writers_go_on_over_kills(tmp_path):
    port = free_port()
    url = f"herdpy://ann@127.0.0.1:{port}/test?failover_timeout=60&connect_timeout=60"
    server = RunningServer(tmp_path / "data", "--port", port).ready()
    told: list[list[int]] = [[] for _ in range(WORKERS)]
    maybe: list[set[int]] = [set() for _ in range(WORKERS)]
    stop = threading.Event()
    progress = threading.Semaphore(0)
    failed: list[BaseException] = []

    def write(worker: int) -> None:
        number = 0
        try:
            with herdpy.connect(url, autocommit=worker % 2 == 0) as conn:
                while not stop.is_set():
                    number += 1

                    def work(conn, number=number):
                        conn.execute("INSERT INTO t VALUES (%s, %s)", (worker, number))

                    try:
                        if conn.autocommit:
                            work(conn)
                        else:
                            herdpy.run_transaction(conn, work)
                    except herdpy.OperationalError as error:
                        if error.outcome != "unknown":
                            raise
                        maybe[worker].add(number)
                        conn.rollback()
                    else:
                        told[worker].append(number)
                    progress.release()
        except BaseException as error:
            failed.append(error)
            progress.release()
            raise

    with herdpy.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE t (worker INTEGER, number INTEGER)")
    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(WORKERS)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            for _ in range(30):
                assert progress.acquire(timeout=60)
            server.signal(signal.SIGKILL)
            server.wait()
            server.close()
            server = RunningServer(tmp_path / "data", "--port", port).ready()
        for _ in range(30):
            assert progress.acquire(timeout=60)
        stop.set()
        for thread in threads:
            thread.join(60)
        assert not failed
        with herdpy.connect(url, autocommit=True) as conn:
            there = conn.execute("SELECT worker, number FROM t").fetchall()
        assert len(there) == len(set(there))
        for worker in range(WORKERS):
            numbers = {number for one, number in there if one == worker}
            assert numbers - maybe[worker] == set(told[worker]) - maybe[worker]
        assert not any(maybe)  # the server came back in time, so every outcome could be learnt
    finally:
        stop.set()
        server.close()
