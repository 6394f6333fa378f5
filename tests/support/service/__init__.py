"""Kafka's whole group coordinator beside the model, in virtual time."""
