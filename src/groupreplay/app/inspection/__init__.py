"""Reads a capture or a live topic for a person: list, describe, decode, capture."""
