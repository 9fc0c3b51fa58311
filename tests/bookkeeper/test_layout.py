"""Where ledgers are: LAYOUT, metadata URIs, and the paths of the three schemes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.bookkeeper.errors import MetadataError, UnknownLayoutError
from herdpy.bookkeeper.metadata.paths import (
    LedgerLayout,
    LedgerPaths,
    MetadataUri,
    Scheme,
    parse_layout,
    parse_uri,
    read_layout,
)
from tests.support.znode_worlds import ModelWorld

PACKAGE = "org.apache.bookkeeper.meta."


@pytest.fixture
def world() -> Iterator[ModelWorld]:
    world = ModelWorld()
    yield world
    world.close()


@pytest.mark.parametrize(
    ("data", "scheme"),
    [
        # As a live cluster of BookKeeper 4.17.3 has it.
        (b"2\norg.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory:1", Scheme.LONG),
        (b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1\n", Scheme.HIERARCHICAL),
        (b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", Scheme.FLAT),
        (b"1\nflat:1", Scheme.FLAT),
        (b"1\nhierarchical:1", Scheme.HIERARCHICAL),
    ],
)
def test_known_layouts_are_read(data: bytes, scheme: Scheme) -> None:
    assert parse_layout(data).scheme is scheme


@pytest.mark.parametrize("scheme", Scheme)
def test_a_layout_is_written_as_it_is_read(scheme: Scheme) -> None:
    assert parse_layout(LedgerLayout.of(scheme).to_bytes()) == LedgerLayout.of(scheme)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "garbled: b''"),
        (b"\xff\xfe", "garbled"),
        (b"two\nflat:1", "garbled"),
        (b"2\norg.example.Own", "garbled"),
        (b"3\norg.example.Own:1", "format version 3; known: 1, 2"),
        (b"2\norg.example.Own:1", "'org.example.Own'; known: .*FlatLedgerManagerFactory, .*LongHier"),
        (f"2\n{PACKAGE}MSLedgerManagerFactory:1".encode(), "MSLedgerManagerFactory"),
        (f"2\n{PACKAGE}LegacyHierarchicalLedgerManagerFactory:1".encode(), "LegacyHierarchical"),
        (f"2\n{PACKAGE}FlatLedgerManagerFactory:2".encode(), "version 2 of .*known: version 1"),
    ],
)
def test_unknown_layouts_are_refused_with_what_was_found_and_what_is_known(data: bytes, said: str) -> None:
    with pytest.raises(UnknownLayoutError, match=said):
        parse_layout(data)


@given(st.binary(max_size=60))
def test_garbage_is_an_unknown_layout(data: bytes) -> None:
    with pytest.raises(UnknownLayoutError):
        parse_layout(data)


def test_the_layout_is_read_from_the_cluster_and_wins(world: ModelWorld) -> None:
    async def program() -> None:
        znodes = await world.client()
        with pytest.raises(UnknownLayoutError, match="there is no /ledgers/LAYOUT"):
            await read_layout(znodes, "/ledgers")
        await znodes.create("/ledgers/LAYOUT", LedgerLayout.of(Scheme.FLAT).to_bytes(), make_parents=True)
        assert (await read_layout(znodes, "/ledgers/")).scheme is Scheme.FLAT
        assert (await read_layout(znodes, "/ledgers", Scheme.FLAT)).scheme is Scheme.FLAT
        with pytest.raises(UnknownLayoutError, match=r"asks for the layout longhierarchical, .* says flat"):
            await read_layout(znodes, "/ledgers", Scheme.LONG)

    world.run(program)


@pytest.mark.parametrize(
    ("uri", "parsed"),
    [
        ("zk://127.0.0.1:2181/ledgers", MetadataUri(("127.0.0.1:2181",), "/ledgers")),
        ("zk://a,b:1/ledgers/", MetadataUri(("a:2181", "b:1"), "/ledgers")),
        ("zk+null://a:1;b:2/x/y", MetadataUri(("a:1", "b:2"), "/x/y")),
        ("zk+longhierarchical://[::1]:9,[::2]/l", MetadataUri(("[::1]:9", "[::2]:2181"), "/l", Scheme.LONG)),
        ("zk+hierarchical://a:1/l", MetadataUri(("a:1",), "/l", Scheme.HIERARCHICAL)),
        ("zk+FLAT://a:1/l", MetadataUri(("a:1",), "/l", Scheme.FLAT)),
    ],
)
def test_uris_are_taken_apart(uri: str, parsed: MetadataUri) -> None:
    assert parse_uri(uri) == parsed
    assert parsed.connect_string == ",".join(parsed.hosts)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("127.0.0.1:2181/ledgers", "starts with zk://"),
        ("etcd://a:1/ledgers", "starts with zk://"),
        ("zk:///ledgers", "no ZooKeeper server"),
        ("zk://a:1", "path of the ledgers"),
        ("zk://a:1/", "path of the ledgers"),
        ("zk://a:1/l?x=1", "path of the ledgers"),
        ("zk://a:b/l", "not host:port"),
        ("zk://a:70000/l", "not host:port"),
        ("zk+ms://a:1/l", "'ms'; known: longhierarchical, hierarchical, flat, null"),
    ],
)
def test_other_uris_are_refused(uri: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_uri(uri)


@pytest.mark.parametrize(
    ("scheme", "ledger_id", "path"),
    [
        # Seen on a live cluster for ledger 0.
        (Scheme.LONG, 0, "/ledgers/000/0000/0000/0000/L0000"),
        (Scheme.LONG, 1234567890123456789, "/ledgers/123/4567/8901/2345/L6789"),
        (Scheme.LONG, 2**63 - 1, "/ledgers/922/3372/0368/5477/L5807"),
        (Scheme.HIERARCHICAL, 5, "/ledgers/00/0000/L0005"),
        (Scheme.HIERARCHICAL, 2**31 - 2, "/ledgers/21/4748/L3646"),
        (Scheme.HIERARCHICAL, 2**31 - 1, "/ledgers/000/0000/0021/4748/L3647"),
        (Scheme.FLAT, 7, "/ledgers/L0000000007"),
        (Scheme.FLAT, 12345678901, "/ledgers/L12345678901"),
    ],
)
def test_paths_are_bookkeepers(scheme: Scheme, ledger_id: int, path: str) -> None:
    paths = LedgerPaths("/ledgers", scheme)
    assert paths.path(ledger_id) == path
    assert paths.id_of(path) == ledger_id


@given(st.sampled_from(Scheme), st.integers(0, 2**63 - 1))
def test_every_id_has_a_path_of_its_own(scheme: Scheme, ledger_id: int) -> None:
    paths = LedgerPaths("/ledgers", scheme)
    assert paths.id_of(paths.path(ledger_id)) == ledger_id


@pytest.mark.parametrize(
    ("scheme", "path"),
    [
        (Scheme.LONG, "/ledgers/idgen-long"),
        (Scheme.LONG, "/ledgers/LAYOUT"),
        (Scheme.LONG, "/ledgers/00/0000/L0005"),
        (Scheme.LONG, "/ledgers/999/9999/9999/9999/L9999"),  # beyond 63 bits
        (Scheme.LONG, "/other/000/0000/0000/0000/L0000"),
        (Scheme.HIERARCHICAL, "/ledgers/21/4748/L3647"),  # has the long form
        (Scheme.HIERARCHICAL, "/ledgers/000/0000/0000/0000/L0005"),  # has the short form
        (Scheme.FLAT, "/ledgers/L5"),
        (Scheme.FLAT, "/ledgers/L\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661"),
        (Scheme.FLAT, ""),
    ],
)
def test_other_paths_are_no_ledgers(scheme: Scheme, path: str) -> None:
    with pytest.raises(MetadataError, match="not a ledger's path"):
        LedgerPaths("/ledgers", scheme).id_of(path)


@pytest.mark.parametrize("ledger_id", [-1, 2**63])
def test_ids_have_63_bits(ledger_id: int) -> None:
    with pytest.raises(MetadataError, match="not a ledger id"):
        LedgerPaths("/ledgers", Scheme.LONG).path(ledger_id)


def test_parents_are_the_directories_that_exist_for_ledgers() -> None:
    assert LedgerPaths("/a/l", Scheme.HIERARCHICAL).parents(5) == ["/a/l/00/0000", "/a/l/00"]
    assert LedgerPaths("/a/l", Scheme.FLAT).parents(5) == []
