"""Conditions about one partition."""
