"""groupreplay replays Kafka's ``__consumer_offsets`` and reports what happened to every consumer group.

Its rooms, the lowest first; imports go down only:

- ``codecs``: bytes to records and back
- ``state``: records to the snapshot, events and conditions of a group; pure
- ``coordinator``: a model of Kafka's group coordinator with simulated clients, which shares no code with ``state``
- ``timeline``: the history of a group as one document, for pages and terminals; pure
- ``streaming``: the engine, the Spark query, Kafka, the prober and the run
- ``app``: the command line, pages, metrics, and what else a person starts
"""

__version__ = "0.1.0"
