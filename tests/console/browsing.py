"""What tests of the console in a browser share."""

from __future__ import annotations

from tests.support.chromium import Tab


def log_in(tab: Tab) -> None:
    """On the page for it, as ann, by keyboard alone."""
    tab.tab_to("Role")
    tab.type("ann")
    tab.press("Tab")
    tab.type("of ann")
    with tab.loading():
        tab.press("Enter")
