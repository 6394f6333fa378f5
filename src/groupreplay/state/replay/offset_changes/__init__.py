"""Committed offsets that are removed, committed again, wound back or set by hand."""
