"""Write the protobuf modules and their stubs beside the .proto files they come from.

    python tools/generate_proto.py

Needs grpcio-tools and mypy-protobuf (extra ``dev``). The modules load only with a protobuf runtime at
least as new as the compiler that wrote them: raise the lower bound in pyproject.toml with it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("herdpy/bookkeeper/wire/proto")


def generate(out: Path, root: Path = ROOT) -> list[Path]:
    """Write ``*_pb2.py`` and ``*_pb2.pyi`` below ``out``; return them. RuntimeError if protoc fails."""
    sources = sorted((root / FOLDER).glob("*.proto"))
    plugin = Path(sysconfig.get_path("scripts")) / "protoc-gen-mypy"
    arguments = ["protoc", f"-I{root}", f"--python_out={out}", f"--mypy_out=quiet:{out}"]
    arguments += [f"--plugin=protoc-gen-mypy={plugin}", *(os.fspath(source) for source in sources)]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed")
    return sorted((out / FOLDER).glob("*_pb2.py*"))


if __name__ == "__main__":
    for written in generate(ROOT):
        sys.stdout.write(f"{written.relative_to(ROOT)}\n")
