"""Conditions about committed offsets."""
