"""PySpark data source and jobs: an empty room until the data pipeline is built."""
