"""groupreplay: replays Kafka's ``__consumer_offsets`` and says what happened to every consumer group.

Three rooms, imports go one way: ``codecs`` (bytes to records and back), ``state`` (records to group state
and events; pure), ``streaming`` (Spark, Kafka and the terminal; translation only).
"""

__version__ = "0.1.0"
