"""Applies records to a group's snapshot, as Kafka's coordinator replays them, and reports each change as facts."""
