"""Clients of real brokers, and Kafka's own Java classes."""
