"""Simulated clients that send requests to the coordinator model; the results are records and state changes."""
