"""Shared parts of the tests; no test in here."""
