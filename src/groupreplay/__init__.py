"""groupreplay replays Kafka's ``__consumer_offsets`` and reports what happened to every consumer group.

It has three parts, and imports go one way: ``codecs`` (bytes to records and back), ``state`` (records to group state
and events, without IO), ``streaming`` (Spark, Kafka and the terminal).
"""

__version__ = "0.1.0"
