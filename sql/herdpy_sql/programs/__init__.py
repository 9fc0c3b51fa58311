"""Programs in the database: functions, procedures and DO blocks, in SQL and PL/pgSQL. No I/O.

    parser         PL/pgSQL's text -> the tree of ``syntax``; SQL in it stays text (``syntax.Fragment``)
    type_texts     types as a definition keeps them -> types of a catalog
    routines       a definition of the catalog -> what is called, and which one a call means
    variables      the values that a running program has by name
    fragments      a piece of SQL in a program, planned with the program's names as its parameters
    interpreter    runs a program, statement by statement, on a ``ProgramHost``

A call is an expression of an own plan (``expr.nodes.ProgramCall``). When the plan runs it, the session is
called (``Clock.sequences``). It runs the interpreter, and carries out the SQL that this meets in the
statement's own transaction. What that writes is logged as rows: nothing here runs on a follower.
"""
