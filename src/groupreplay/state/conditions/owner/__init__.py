"""Conditions about the owner of partitions."""
