"""Wall clocks that jump."""

from __future__ import annotations

from herdpy.drill.control import ClusterControl, ClusterNeeds, ClusterObserver
from herdpy.drill.faults.fault import Fault, first_reason

_HOUR_S = 3600.0
_JUMPS_S = (1.0, 90.0, _HOUR_S, 24 * _HOUR_S, 400 * 24 * _HOUR_S)


class ClockJump(Fault):
    """The wall clocks of all servers jump, each another way: leases, elections and time-outs must not care.

    Only CLOCK_REALTIME jumps, as it does when somebody sets it or NTP steps it. The clocks that count up
    (CLOCK_MONOTONIC, CLOCK_BOOTTIME, on which leases are measured) cannot be set on a real machine either.
    """

    name = "clock-jump"
    summary = "the wall clocks of all servers jump, forward and back, by up to a year, and back again"
    needs = ClusterNeeds(fault_injector=True)
    hold_s = 4.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "skew")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        told = []
        forward = self.chance.choice((True, False))
        for server in view.names("server"):
            seconds = self.chance.choice(_JUMPS_S) * (1 if forward else -1)
            self._undo.callback(control.skew, server, 0.0)
            control.skew(server, seconds)
            told.append(f"that of {server} by {seconds:+g} s")
            forward = not forward
        return f"wall clocks jump: {', '.join(told)}"
