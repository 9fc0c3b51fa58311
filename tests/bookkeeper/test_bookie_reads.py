"""Many reads at once: each is its own sink, and gets its entry where it lies in the frame."""

from __future__ import annotations

import asyncio

from herdpy.bookkeeper.bookie.pending import AwaitedEntry
from herdpy.bookkeeper.errors import ClosedClientError, NoSuchEntryError, Outcome
from herdpy.bookkeeper.wire.messages import ReadReply
from herdpy.bookkeeper.wire.protocol import Operation, ReplyStatus
from tests.bookkeeper.scripted_bookie import LEDGER, frame, response_to, run, scripted


class Read(AwaitedEntry):
    """Takes one outcome: a body, a reply in another form, or an error."""

    def __init__(self, entry_id: int) -> None:
        super().__init__(LEDGER, entry_id)
        self.told: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def entry_arrived(self, frame: bytes, start: int, end: int) -> None:
        self.told.set_result(frame[start:end])

    def done(self) -> bool:
        return self.told.done()

    def set_result(self, reply: object, /) -> None:
        self.told.set_result(reply)

    def set_exception(self, error: BaseException, /) -> None:
        self.told.set_exception(error)


class Broken(Read):
    def entry_arrived(self, frame: bytes, start: int, end: int) -> None:
        raise ZeroDivisionError("a bug of the reader")


def test_each_read_gets_its_own() -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, _):
            reads = [Read(entry_id) for entry_id in (3, 6, 9)]
            bookie.send_reads(LEDGER, reads)
            peer = await server.accept()
            requests = await peer.requests(3)
            assert [request.read.entry_id for request in requests] == [3, 6, 9]
            there, missing, unusual = map(response_to, requests, (0, int(ReplyStatus.ENOENTRY), 0))
            there.read.body, unusual.read.body = b"sealed", b"also"
            # A field this client does not know: such a reply is read by protobuf.
            peer.send(frame(there) + frame(missing) + frame_with_unknown_field(unusual))
            assert await reads[0].told == b"sealed"
            reply = await reads[2].told
            assert isinstance(reply, ReadReply)
            assert reply.body == b"also"
            error = await asyncio.gather(reads[1].told, return_exceptions=True)
            assert isinstance(error[0], NoSuchEntryError)
            assert (error[0].bookie, error[0].entry_id) == (bookie.id, 6)
            outcomes = {(Operation.READ_ENTRY, 0): 2, (Operation.READ_ENTRY, int(ReplyStatus.ENOENTRY)): 1}
            assert bookie.metrics.outcomes == outcomes
            assert bookie.metrics.latency[Operation.READ_ENTRY].count == 3

    run(test)


def frame_with_unknown_field(response: object) -> bytes:
    body = frame(response)[4:] + b"\xb8\x3e\x05"
    return len(body).to_bytes(4, "big") + body


def test_reads_of_a_closed_client_are_refused() -> None:
    async def test() -> None:
        async with scripted() as (_, bookie, _):
            bookie.close()
            read = Read(5)
            bookie.send_reads(LEDGER, [read])
            assert not read.done()  # never before it returns
            error = (await asyncio.gather(read.told, return_exceptions=True))[0]
            assert isinstance(error, ClosedClientError)
            assert error.outcome is Outcome.NOT_DONE
            assert bookie.metrics.refused == 1

    run(test)


def test_a_readers_bug_does_not_reach_the_others() -> None:
    async def test() -> None:
        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        async with scripted() as (server, bookie, _):
            broken, fine = Broken(0), Read(1)
            bookie.send_reads(LEDGER, [broken, fine])
            peer = await server.accept()
            responses = [response_to(request) for request in await peer.requests(2)]
            for response in responses:
                response.read.body = b"sealed"
            peer.send(b"".join(map(frame, responses)))
            assert await fine.told == b"sealed"
            assert [type(error) for error in reported] == [ZeroDivisionError]

    run(test)
