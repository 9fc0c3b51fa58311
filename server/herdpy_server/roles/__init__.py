"""Roles, and what they may do: who there is, whose member, with which password, and the rights that GRANT
gives.

Above ``tablespace``, below ``sessions``, which runs the statements that change roles and rights. From
below: ``passwords`` and ``role`` (a role and its memberships), ``role_store`` (their file),
``effective_role`` (what follows from whose member a role is), ``permissions`` (whether a role may run a
statement), ``role_changes`` and ``right_changes`` (what CREATE ROLE, GRANT and their relatives do). Rights
themselves are part of the catalog: ``herdpy_sql.rights``.
"""
