"""A full backup, its restore, and an increment, beside zstd and the disk: a part of ``backup``."""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median

from backup_bed import BackupBed, aimed, command_s, herdpy_command, stored_bytes
from measure import Line, in_turn

LEAST = 0.7
"""Of zstd's rate, or the disk's, whichever is less."""
MOST_SHARE = 0.05
"""Of a full backup's size, for an increment after 1 % of the rows changed."""
CHANGED_SHARE = 100
_MIB = 1 << 20


def measure_images(bed: BackupBed) -> list[Line]:
    """See the module; rates are of the bytes of the store."""
    database = bed.filled("source")
    data = database / "store" / "data.mdb"
    size = data.stat().st_size
    packed, copied = bed.directory / "packed.zst", bed.directory / "copied"

    def back_up() -> float:
        return herdpy_command("backup", database, "--to", bed.fresh("repository"), "--full")[0]

    def compress() -> tuple[float, float]:
        return zstd_s(data, packed, "-1"), copy_s(data, copied)

    backups, peers = in_turn(bed.rounds, back_up, compress)
    lines = [_line("full backup", size, backups, peers)]
    full_bytes = stored_bytes(bed.directory / "repository")

    def restore() -> float:
        return herdpy_command("restore", bed.directory / "repository", bed.fresh("restored"))[0]

    def unpack() -> tuple[float, float]:
        return zstd_s(packed, bed.fresh("unpacked"), "-d"), copy_s(data, copied)

    restores, peers = in_turn(bed.rounds, restore, unpack)
    lines.append(_line("restore, verified", size, restores, peers))
    lines += _increment(bed, database, full_bytes)
    for path in (database, bed.directory / "restored", bed.directory / "repository"):
        shutil.rmtree(path)
    return lines


def _increment(bed: BackupBed, database: Path, full_bytes: int) -> list[Line]:
    bed.change(database, CHANGED_SHARE)
    took_s, _said = herdpy_command("backup", database, "--to", bed.directory / "repository", "--incremental")
    share = (stored_bytes(bed.directory / "repository") - full_bytes) / full_bytes
    size = Line("increment after 1 % of the rows changed, of a full backup", share * 100, "%")
    return [aimed(size, f"< {MOST_SHARE:.0%}", share < MOST_SHARE), Line("the same", took_s, "s")]


def _line(name: str, size: int, ours_s: list[float], peers_s: list[tuple[float, float]]) -> Line:
    """Rates of ours, and of the slower of zstd and the disk in the same round."""
    ours = [size / one / _MIB for one in ours_s]
    slower = [size / max(pair) / _MIB for pair in peers_s]
    line = Line(f"{name}, {size / _MIB:,.0f} MiB", median(ours), "MiB/s", median(slower))
    line.runs, line.peer_runs = ours, slower
    return aimed(line, f">= {LEAST:g} of zstd or disk", (line.ratio or 0.0) >= LEAST)


def zstd_s(source: Path, target: Path, way: str) -> float:
    """One thread of the program zstd, and a sync."""
    target.unlink(missing_ok=True)
    return command_s("zstd", way, "-q", "-T1", "-o", target, source) + command_s("sync", target)


def copy_s(source: Path, target: Path) -> float:
    """A copy, and a sync: what the disk takes."""
    target.unlink(missing_ok=True)
    return command_s("dd", f"if={source}", f"of={target}", "bs=4M", "conv=fsync", "status=none")
