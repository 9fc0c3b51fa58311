"""A schema's tables as views of Spark: their names, their states, and what Spark cannot name."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

import herdpy
import herdpy_spark
from herdpy_spark.options import OptionError


@pytest.fixture
def database(tmp_path):
    """A directory with two schemas, which have a table of the same name."""
    path = str(tmp_path / "db")
    with herdpy.connect(path, autocommit=True) as connection:
        for statement in (
            "CREATE TABLE orders (id INT PRIMARY KEY, total NUMERIC(8,2))",
            "INSERT INTO orders VALUES (1, 10), (2, 2.5)",
            "CREATE SCHEMA app",
            "CREATE TABLE app.orders (id INT PRIMARY KEY)",
            "INSERT INTO app.orders VALUES (7)",
            'CREATE TABLE app."Odd `name" (id INT PRIMARY KEY)',
            "CREATE VIEW seen AS SELECT 1 AS one",
        ):
            connection.execute(statement)
    return f"herdpy://{path}"


def shown(spark, query):
    return [tuple(row) for row in spark.sql(query).collect()]


def test_tables_are_views_by_name(spark, database):
    assert herdpy_spark.attach(spark, database) == ["orders"]
    assert herdpy_spark.attach(spark, database, "app", prefix="app_") == ["app_Odd `name", "app_orders"]
    names = {name for _space, name, is_temporary in shown(spark, "SHOW TABLES") if is_temporary}
    assert names >= {"orders", "app_orders", "app_odd `name"}
    assert shown(spark, "SELECT sum(total) FROM orders WHERE id < 10")[0][0] == 12.5
    assert spark.table("app_orders").join(spark.table("orders"), "id", "left").count() == 1
    assert shown(spark, "SELECT count(*) FROM `app_Odd ``name`") == [(0,)]


def test_a_view_is_written_to_and_shows_a_newer_state_when_attached_again(spark, database):
    herdpy_spark.attach(spark, database, "app", prefix="w_")
    assert shown(spark, "SELECT * FROM w_orders") == [(7,)]
    spark.sql("INSERT INTO w_orders SELECT 8")
    assert shown(spark, "SELECT * FROM w_orders") == [(7,)]
    herdpy_spark.attach(spark, database, "app", prefix="w_")
    assert sorted(shown(spark, "SELECT * FROM w_orders")) == [(7,), (8,)]


def test_a_view_of_sql_takes_options(spark, database):
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW one USING herdpy OPTIONS (url '{database}', dbtable 'App.Orders')"
    )
    assert shown(spark, "SELECT id FROM one") == [(7,)]
    with pytest.raises(PySparkException, match=r"CREATE TEMPORARY VIEW \.\.\. USING herdpy OPTIONS"):
        spark.sql(f"CREATE TABLE kept USING herdpy OPTIONS (url '{database}', dbtable 'orders')")
    assert "kept" not in {row[1] for row in shown(spark, "SHOW TABLES")}


def test_what_is_no_schemas_is_refused(spark, database, tmp_path):
    with pytest.raises(OptionError, match="there is no schema nowhere"):
        herdpy_spark.attach(spark, database, "nowhere")
    with pytest.raises(OptionError, match="the option where is of one table"):
        herdpy_spark.attach(spark, database, WHERE="id = 1")
    with pytest.raises(OptionError, match=r"the option form is not known.*is from meant"):
        herdpy_spark.attach(spark, database, form="log")
    with herdpy.connect(database, autocommit=True) as connection:
        connection.execute('CREATE TABLE "Orders" (id INT PRIMARY KEY)')
    with pytest.raises(OptionError, match="several tables called orders"):
        herdpy_spark.attach(spark, database)
    with pytest.raises(herdpy.Error):
        herdpy_spark.attach(spark, f"herdpy://{tmp_path}/nothing")
    assert not (tmp_path / "nothing").exists()
