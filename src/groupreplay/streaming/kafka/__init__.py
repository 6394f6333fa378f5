"""Kafka clients: connections, topics, rights, groups, and raw records of a topic."""
