"""The change feed without Spark: ``herdpy changes``, one process that follows one table.

    the log -> feed (Arrow batches) -> values -> json_lines | debezium | avro -> file | kafka | table

From the bottom: ``values``, the feed's columns as messages take them; ``messages``, what a message is, and
the formats that make them: ``json_lines``, ``debezium``, ``avro`` with a schema ``registry``; ``sinks``,
where messages go, with the position that they end at; ``kafka``; ``table_sink``, which carries them out;
``follow``, the loop that joins them.
"""
