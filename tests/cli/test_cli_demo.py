"""The demo, with few rows: every one of its own checks holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_passes(tmp_path):
    done = subprocess.run(
        [sys.executable, str(DEMO), "--rows", "4000", "--dir", str(tmp_path / "kept")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok  ") >= 18
    assert "FAIL" not in done.stdout
    assert (tmp_path / "kept" / "killed" / "HERDPY").is_file()
