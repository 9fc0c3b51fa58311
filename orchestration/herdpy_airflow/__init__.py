"""HerdPy for Apache Airflow: a connection type, a hook, an operator for Spark's jobs, a sensor of positions.

    Connection -> addresses -> hooks   (common.sql's operators, insert_rows, SQLAlchemy)
                            -> operators -> job_process -> a process with the job   -> its report, as XCom
                            -> sensors, triggers -> positions                       -> the task goes on

Airflow finds ``get_provider_info`` by the entry point ``apache_airflow_provider``. Modules that need no
Airflow (``addresses``, ``job_process``, ``positions``) import none, so they are tested without it. Airflow
itself is no dependency of HerdPy: it is installed first, with its own constraints, and HerdPy into it.
"""

from __future__ import annotations
