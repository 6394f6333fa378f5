"""Brokers of further Kafka releases, with KRaft or with ZooKeeper, and members that send requests to any release."""
