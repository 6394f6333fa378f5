"""Reads the job's own topics back."""
