"""Conditions about static members, which keep an instance id."""
