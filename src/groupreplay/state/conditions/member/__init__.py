"""Conditions about one member."""
