"""A model of Kafka's group coordinator: requests and time in, answers and records out.

Shares no code with the replay.
"""
