"""SQL without I/O: types, catalog, parse, bind, plan, expressions, execution over a storage protocol."""
