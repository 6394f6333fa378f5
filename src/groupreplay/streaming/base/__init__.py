"""Errors, the clock and signals: what every other package may use."""
