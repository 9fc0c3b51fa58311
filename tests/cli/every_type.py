"""A table with a column of every type, and rows with the ends of each, for round trips."""

from __future__ import annotations

COLUMNS = {
    "k": "INTEGER PRIMARY KEY",
    "b": "BOOLEAN",
    "s": "SMALLINT",
    "l": "BIGINT",
    "r": "REAL",
    "d": "DOUBLE PRECISION",
    "n": "NUMERIC(30,3)",
    "any_n": "NUMERIC",
    "t": "TEXT",
    "v": "VARCHAR(9)",
    "c": "CHAR(3)",
    "y": "BYTEA",
    "dt": "DATE",
    "tm": "TIME",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMPTZ",
    "u": "UUID",
    "j": "JSON",
    "a": "INET",
    "nets": "CIDR[]",
    "m": "MACADDR8",
    "bits": "BIT(3)",
    "list": "VARBIT[]",
    "grid": "TEXT[][]",
    "docs": "JSONB[]",
}
VALUES = [
    "(1, true, -32768, 9223372036854775807, 0.1, 1e300, 123456789012345678901234567.125, 1.500,"
    " 'a,\"b\"\n ', 'é日', 'x', '\\x00ff', '2024-02-29',"
    " '23:59:59.999999', '1969-12-31 23:59:59.5', '2024-01-01 00:00:00+02',"
    " '00000000-0000-0000-0000-00000000000a', '{\"a\":  [1, \"x\"]}',"
    " '10.0.0.7/8', '{10.0.0.0/8,NULL}', '08:00:2b:01:02:03:04:05', '101', '{1,01}', '{{a,\"b c\"}}',"
    " ARRAY['{\"a\": 1}'::jsonb])",
    "(2, false, 0, -1, 'NaN', '-Infinity', -0.001, 0, '', '', '', '', '0001-01-01', '00:00', '1900-01-01',"
    " '9999-12-31 23:59:59Z', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '\"text\"',"
    " '::1', '{}', 'ff:ff:ff:ff:ff:ff:ff:ff', '000', '{\"\"}', '{}', '{}')",
    "(3" + ", NULL" * 24 + ")",
    "(4, true, 1, 1, 1, 1, 1, 1, 'NULL', 'null', 'NA', '\\x', 'infinity', '12:00', '-infinity', 'infinity',"
    " '00000000-0000-0000-0000-000000000000', '[]',"
    " '0.0.0.0/0', '{::/0}', '00:00:00:ff:fe:00:00:00', '111', '{NULL}', '{{NULL}}', '{NULL,\"[]\"}')",
]
DEFINITION = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
