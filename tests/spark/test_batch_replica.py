"""Who is asked to hold a state, and how new it must be: servers that only say what a test writes."""

from __future__ import annotations

from typing import Any

from herdpy.log.lsn import LSN
from herdpy.rpc import partitions_pb2
from herdpy.rpc.address import GrpcAddress
from herdpy_spark.access import AccessError, Description, Node, TablespaceServers
from herdpy_spark.batch import rows
from herdpy_spark.log import LogAddress

LEADER, ONE, OTHER, NEW = (GrpcAddress(name) for name in ("leader", "one", "other", "new"))
LOG = LogAddress("t", directory="/log")


class Said(TablespaceServers):
    """A leader that has applied 5:9, followers behind it; the first to be asked for a plan is too busy."""

    def __init__(self, *, leader_answers: bool = True) -> None:
        super().__init__("t", [ONE])
        self.leader_answers = leader_answers
        self.asked: list[tuple[GrpcAddress, Any]] = []

    def describe(self, table: str | None = None, places: Any = ()) -> Description:
        if list(places) == [LEADER] and not self.leader_answers:
            raise AccessError("away", is_transient=True)
        nodes = (
            Node(LEADER, "leading", LSN(5, 1)),
            Node(ONE, "following", LSN(5, 3)),
            Node(OTHER, "following", LSN(5, 4)),
            Node(NEW, "seeding", LSN(-1, -1)),
        )
        return Description("t", LOG, LSN(5, 9) if places else LSN(5, 3), nodes, None)

    def call(self, do: Any, places: Any = ()) -> Any:
        for place in places:
            made = do(_Channel(self.asked, place), place)
            if len(self.asked) > 1:
                return made
        raise AssertionError(places)


class _Channel:
    def __init__(self, asked: list[Any], place: GrpcAddress) -> None:
        self.asked, self.place = asked, place

    def unary_unary(self, _method: str, **_codecs: Any) -> Any:
        def call(request: Any, **_: Any) -> Any:
            self.asked.append((self.place, request))
            return partitions_pb2.PartitionPlan(id="p")

        return call

    unary_stream = unary_unary


def planned(servers: Said) -> list[tuple[GrpcAddress, Any]]:
    rows.plan_replica_table(servers, "a", partitions=3, bounds=("1", None), keys=(None, b"k"), lease_s=90.0)
    return servers.asked


def test_followers_are_asked_first_and_for_all_that_the_leader_has():
    orders = set()
    for _ in range(50):
        asked = planned(Said())
        orders.add(tuple(place for place, _request in asked))
        for _place, request in asked:
            assert (request.reached.ledger_id, request.reached.entry_id) == (5, 9)
            assert (request.tablespace, request.table, request.low, request.high_key) == ("t", "a", "1", b"k")
            assert not request.HasField("high")
            assert not request.HasField("low_key")
    assert orders == {(ONE, OTHER), (OTHER, ONE)}


def test_without_a_leader_the_most_that_any_follower_has_is_asked_for():
    for _place, request in planned(Said(leader_answers=False)):
        assert (request.reached.ledger_id, request.reached.entry_id) == (5, 4)


def test_a_replica_that_is_being_made_is_not_asked_and_the_leader_last():
    places = rows.candidates(Said().describe())
    assert set(places[:2]) == {ONE, OTHER}
    assert places[2:] == [LEADER]
