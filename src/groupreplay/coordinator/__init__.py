"""A model of Kafka's group coordinator: takes requests and the time, returns answers and records.

Shares only `kafka_terms` and the codecs with the replay.
"""
