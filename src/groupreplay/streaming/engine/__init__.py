"""Bytes to one row per group, and one row per group to events; runs without Spark."""
