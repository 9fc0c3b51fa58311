"""Compile the hot modules in place with mypyc: ``make compiled``.

``[tool.herdpy] compiled`` in pyproject.toml lists them. mypyc makes C of them, which shares one library
(``herdpy__mypyc``), and for each module a small binary that gives it its name; they come to lie beside the
sources, where Python finds them first. The list of what was compiled, ``herdpy/compiled_modules.json``, lets
``herdpy.compiled`` see that sources have changed since.

    python tools/compile_modules.py            # compile; what has not changed is not compiled again
    python tools/compile_modules.py --remove   # back to pure Python
    python tools/compile_modules.py --check    # only ask mypyc whether it can compile them (minutes less)
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sysconfig
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "compiled"
GROUP = "herdpy"
LIBRARY = f"{GROUP}__mypyc"
LIST = ROOT / "herdpy" / "compiled_modules.json"
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
SOURCE_ROOTS = ("server", "sql", "spark_jobs")
"""Folders whose packages lie beside ``herdpy`` in a wheel."""
_COMMON = ("-w", "-fPIC", "-fwrapv", "-fno-strict-aliasing")
RELEASE = ("-O2", "-g0", "-DNDEBUG", *_COMMON)
DEBUG = ("-O1", "-g", "-UNDEBUG", *_COMMON)


def main() -> None:
    """Compile, or remove what was compiled."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--remove", action="store_true", help="remove what was compiled")
    parser.add_argument("--check", action="store_true", help="make no binaries")
    parser.add_argument("--wheel", action="store_true", help="for a wheel, whose sources do not change")
    parser.add_argument("--debug", action="store_true", help="with symbols and the assertions of mypyc's C")
    args = parser.parse_args()
    os.chdir(ROOT)
    remove()
    if args.remove:
        return
    began = time.monotonic()
    compiled = listed(wheel=args.wheel)
    extensions = generate()
    print(f"C of {len(extensions) - 1} modules made in {time.monotonic() - began:.0f} s", flush=True)
    if args.check:
        return
    build(extensions, DEBUG if args.debug else RELEASE)
    LIST.write_text(json.dumps(compiled, indent=1))
    print(f"compiled in {time.monotonic() - began:.0f} s; `herdpy version` shows it", flush=True)


def sources() -> list[str]:
    """The sources of the hot modules, relative to the root."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return list(tomllib.load(file)["tool"]["herdpy"]["compiled"])


def generate() -> list[Any]:
    """C of all modules, as setuptools' extensions. Exits where mypyc refuses one."""
    os.environ["MYPYPATH"] = os.pathsep.join(SOURCE_ROOTS)
    from mypyc.build import mypycify

    made = mypycify(
        ["--config-file", "pyproject.toml", *sources()],
        multi_file=True,
        group_name=GROUP,
        target_dir=str(BUILD / "c"),
    )
    return list(made)


def build(extensions: list[Any], flags: tuple[str, ...]) -> None:
    """Compile and link, as many at a time as there are cores."""
    include = [f"-I{path}" for path in (*extensions[0].include_dirs, sysconfig.get_path("include"))]
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
    newest = max(path.stat().st_mtime for path in (BUILD / "c").rglob("*.h"))
    files = {source: _object_of(source) for extension in extensions for source in extension.sources}
    (BUILD / "o").mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = partial(_compile, [*compiler, *flags, *include], newest)
        list(pool.map(compiled, files.keys(), files.values()))
    for extension in extensions:
        made = [str(files[source]) for source in extension.sources]
        subprocess.run([*compiler, "-shared", *made, "-o", str(_place(extension.name))], check=True)


def _object_of(source: str) -> Path:
    return BUILD / "o" / (str(Path(source).relative_to(BUILD / "c")).replace("/", "_") + ".o")


def _compile(command: list[str], newest: float, source: str, made: Path) -> None:
    """Compile one file, where it or a header is newer than what was made of it."""
    if made.exists() and made.stat().st_mtime > max(Path(source).stat().st_mtime, newest):
        return
    subprocess.run([*command, "-c", source, "-o", str(made)], check=True)


def _place(name: str) -> Path:
    """Where the binary of a module of that name goes."""
    if name == LIBRARY:
        return ROOT / f"{name}{SUFFIX}"
    path = name.replace(".", "/")
    [source] = [one for one in sources() if one.endswith(f"{path}.py")]
    return ROOT / (source.removesuffix(".py") + SUFFIX)


def listed(*, wheel: bool) -> dict[str, list[int] | None]:
    """What is compiled: each source with its size and the time of its last change. A wheel does not keep
    those, and its packages lie side by side. Taken first, so that a change meanwhile is seen."""
    found: dict[str, list[int] | None] = {}
    for source in sources():
        top, _, below = source.partition("/")
        if wheel:
            found[below if top in SOURCE_ROOTS else source] = None
        else:
            stat = (ROOT / source).stat()
            found[source] = [stat.st_size, stat.st_mtime_ns]
    return found


def remove() -> None:
    """Remove all binaries."""
    LIST.unlink(missing_ok=True)
    for path in [*ROOT.glob("*.so"), *(ROOT / "herdpy").rglob("*.so")]:
        path.unlink()
    for top in SOURCE_ROOTS:
        for path in (ROOT / top).rglob("*.so"):
            path.unlink()


if __name__ == "__main__":
    main()
