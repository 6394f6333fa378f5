"""Conditions of the commits of a whole group."""
