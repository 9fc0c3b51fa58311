"""dbt's own suite is run by ``run.py`` alone, in another environment."""

collect_ignore = ["suite"]
