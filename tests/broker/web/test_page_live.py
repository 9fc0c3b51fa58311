"""Streams: what they send, how many there are, and how they end."""

from __future__ import annotations

import contextlib

import httpx
import pytest
from herdpy_broker.submission import Submission, submit
from herdpy_broker.web.app import BrokerApp

from herdpy.testing.process import await_until
from tests.broker.web.conftest import TOKEN, ServedPage


@contextlib.contextmanager
def stream(client, address):
    """The events of a stream: each event's text, or "beat"."""
    with client.stream("GET", address) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer)


def events(answer):
    found = []
    for line in answer.iter_lines():
        if line.startswith("data: "):
            found.append(line.removeprefix("data: "))
        elif line.startswith(": beat"):
            yield "beat"
        elif not line and found:
            yield "\n".join(found)
            found = []


def until(found, wanted):
    return next(text for text in found if wanted in text)


@pytest.fixture
def client(living):
    """A browser on this machine."""
    with living.client() as made:
        yield made


def test_a_submit_arrives(client, connection):
    with stream(client, "/live?page=overview") as found:
        until(found, "no group yet")
        submit(connection, Submission("mail", group="fresh"))
        assert "/group?name=fresh" in until(found, "fresh")


def test_what_has_not_changed_is_not_sent_again_but_beats(url, connection):
    served = ServedPage(BrokerApp(url, interval_s=0.02, beat_s=0.3))
    try:
        with served.client() as client, stream(client, "/live?page=dead") as found:
            assert "dead letters" in next(found)
            assert [next(found), next(found)] == ["beat", "beat"]
    finally:
        served.close()


def test_a_task_is_followed_to_its_end(client, connection):
    ident = submit(connection, Submission("mail", {"n": 1}))
    with stream(client, f"/live?page=task&id={ident}") as found:
        assert "Cancel" in next(found)
        connection.execute("DELETE FROM broker.task")
        assert "Its history was forgotten." in next(found)


def test_all_streams_share_one_reader(living, client, connection):
    submit(connection, Submission("mail"))
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(stream(client, "/live?page=overview")) for _ in range(5)]
        for one in found:
            until(one, "default")
        submit(connection, Submission("mail", group="later"))
        texts = [until(one, "later") for one in found]
        assert len(texts) == 5
        assert len(living.app.site.poller.snapshot.rendered) == 1


def test_there_are_so_many_streams_and_no_more(url, connection):
    served = ServedPage(BrokerApp(url, interval_s=0.05, most_streams=2), most_streams=2)
    try:
        with served.client() as client, contextlib.ExitStack() as stack:
            two = [stack.enter_context(stream(client, "/live?page=overview")) for _ in range(2)]
            assert all(map(next, two))
            answer = client.get("/live?page=overview")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
            assert client.get("/").status_code == 200
            stack.close()
            assert await_until(lambda: served.app.streams.open == 0, 30)
            with stream(client, "/live?page=overview") as found:
                next(found)
    finally:
        served.close()


def test_a_stream_ends_with_its_session(guarded):
    with guarded.client() as client:
        client.post("/login", data={"token": TOKEN}, headers=guarded.same_origin)
        csrf = client.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
        with stream(client, "/live?page=overview") as found:
            next(found)
            client.post("/logout", data={"csrf": csrf}, headers=guarded.same_origin)
            assert len(list(found)) < 100  # it ends
        assert client.get("/live?page=overview").status_code == 303


def test_streams_end_with_the_server(url, connection):
    served = ServedPage(BrokerApp(url, interval_s=0.05))
    with served.client() as client, stream(client, "/live?page=overview") as found:
        next(found)
        served.close()
        with contextlib.suppress(httpx.RemoteProtocolError):
            list(found)
    assert served.app.streams.open == 0


def test_a_database_that_goes_away_is_shown_and_comes_back(living, client, connection):
    submit(connection, Submission("mail"))
    with stream(client, "/live?page=overview") as found:
        until(found, "default")
        connection.execute("ALTER TABLE broker.worker RENAME TO away")
        try:
            assert "What is shown is old." in until(found, "not read")
            metrics = client.get("/metrics").text
            assert "herdpy_broker_up 0.0" in metrics
            assert "herdpy_broker_tasks{" not in metrics
        finally:
            connection.execute("ALTER TABLE broker.away RENAME TO worker")
        assert next(text for text in found if "not read" not in text)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_streams_are_only_read(living, client, method):
    answer = client.request(method, "/live?page=overview", headers=living.same_origin)
    assert answer.status_code == 405
