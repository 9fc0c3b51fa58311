"""The committed protobuf modules are those that the .proto files give, and load without a warning."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from herdpy.bookkeeper.wire.proto import data_formats_pb2, protocol_pb2
from herdpy.rpc import admin_pb2, common_pb2, partitions_pb2, snapshots_pb2

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (Path("herdpy/bookkeeper/wire/proto"), Path("herdpy/rpc"))


def test_the_generated_modules_are_current(tmp_path: Path):
    spec = importlib.util.spec_from_file_location("generate_proto", ROOT / "tools/generate_proto.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    made = tool.generate(tmp_path)
    names = {path.relative_to(tmp_path) for path in made}
    there = {path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).glob("*_pb2*.py*")}
    assert names == there
    assert len(names) == 4 + 14 + 12
    for name in names:
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), f"{name} is out of date"


def test_nothing_clashes_with_other_users_of_protobuf():
    for module in (protocol_pb2, data_formats_pb2):
        assert module.DESCRIPTOR.package == "herdpy.bookkeeper.wire"
        assert module.DESCRIPTOR.name.startswith("herdpy/bookkeeper/wire/proto/")
    for module in (admin_pb2, common_pb2, partitions_pb2, snapshots_pb2):
        assert module.DESCRIPTOR.package == "herdpy.v1"
        assert module.DESCRIPTOR.name.startswith("herdpy/rpc/")
