"""Own plans: statements carried out over a storage.View, a few microseconds each.

A plan is made once by ``herdpy_sql.plan`` and run many times; it holds compiled closures and no state of
a run. Data passes bottom-up: ``sources`` turns values into key ranges and those into rows,
``query`` filters, sorts, limits and projects them, ``insert`` and ``change`` write, ``define`` changes the
catalog. Nothing here does I/O or reads a clock; what a plan sees and changes is the view's.
"""
