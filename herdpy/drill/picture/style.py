"""Colours and measures of the picture: dark text on white, one colour for one meaning."""

from __future__ import annotations

from herdpy.drill.report import DrillState

WIDTH = 1200
LEFT = 200
"""Where the lanes begin; to the left of it are their names and legends."""
RIGHT = 36
MARGIN = 28

PAPER = "#ffffff"
MUTED = "#5f6c7b"
GRID = "#e3e8ee"
PANEL = "#f5f7fa"

VALID = "#18794e"
VALID_PALE = "#e3f5ec"
VIOLATED = "#c4161c"
VIOLATED_PALE = "#fdeaea"
STATES = {
    DrillState.VALID: (VALID, VALID_PALE),
    DrillState.VIOLATED: (VIOLATED, VIOLATED_PALE),
    DrillState.UNDECIDED: (VIOLATED, VIOLATED_PALE),
    DrillState.SKIPPED: (MUTED, PANEL),
}
"""The ink and the ground of the verdict."""

FAULT = "#d97706"
FAULT_PALE = "#fdf3e0"
FAULT_INK = "#7a4200"

WRITES = "#1f5fa8"
READS = "#8fbce6"
FOLLOWER_READS = "#9ed3c1"
REFUSED = "#b4bcc6"
UNKNOWN = "#8b3fb8"
SILENCE = "#5b6573"

HEAT = ("#c6dcf1", "#a3c6e6", "#7fb0da", "#4a8ac3", "#1f5fa8")
"""From few operations to many."""
MEDIAN = "#0b2f57"
TAIL = "#e0562b"

SERVERS = ("#2a7f8e", "#6a8d2f", "#b3567f", "#7a6ab5", "#a9762e", "#4d7ea8", "#8f4a3a", "#3d8a63")
