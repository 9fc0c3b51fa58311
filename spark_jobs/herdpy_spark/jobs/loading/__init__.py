"""Bulk loads from files and other databases: read, made to fit the table, what does not fit set aside.

From the bottom:

sources     CSV, JSON, Parquet, JDBC as DataFrames; of text where the format has no types
checking    the table's columns out of the source's, and why a row is none of the table's
creating    a table for a DataFrame
"""
