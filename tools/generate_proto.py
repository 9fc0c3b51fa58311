"""Write the protobuf and gRPC modules and their stubs beside the .proto files they come from.

    python tools/generate_proto.py

Needs grpcio-tools and mypy-protobuf (extra ``dev``). The modules load only with runtimes of protobuf and
gRPC at least as new as the compiler that wrote them: raise the lower bounds in pyproject.toml with it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("herdpy/bookkeeper/wire/proto")
SERVICES = Path("herdpy/rpc")


def generate(out: Path, root: Path = ROOT) -> list[Path]:
    """Write ``*_pb2*.py`` and ``*_pb2*.pyi`` below ``out``; return them. RuntimeError if protoc fails."""
    plugins = [f"--plugin={name}={Path(sysconfig.get_path('scripts')) / name}" for name in _PLUGINS]
    messages = [f"--python_out={out}", f"--mypy_out=quiet:{out}"]
    _compile(root, [*plugins, *messages], sorted((root / FOLDER).glob("*.proto")))
    services = [f"--grpc_python_out={out}", f"--mypy_grpc_out=quiet:{out}"]
    sources = sorted((root / SERVICES).glob("*.proto"))
    _compile(root, [*plugins, *messages], sources)
    _compile(root, [*plugins, *services], [one for one in sources if "\nservice " in one.read_text()])
    return sorted(path for folder in (FOLDER, SERVICES) for path in (out / folder).glob("*_pb2*.py*"))


_PLUGINS = ("protoc-gen-mypy", "protoc-gen-mypy_grpc")


def _compile(root: Path, options: list[str], sources: list[Path]) -> None:
    include = Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{root}", f"-I{include}", *options, *(os.fspath(source) for source in sources)]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed")


if __name__ == "__main__":
    for written in generate(ROOT):
        sys.stdout.write(f"{written.relative_to(ROOT)}\n")
