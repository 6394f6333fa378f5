"""Simulated clients that talk to the coordinator model, and the records and the truth that come of it."""
