"""Brokers of further Kafka releases, with KRaft or with ZooKeeper."""
