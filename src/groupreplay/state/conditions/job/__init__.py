"""Conditions about the job itself."""
