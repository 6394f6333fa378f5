"""Builders for records, histories and events."""
