"""Incidents of known cause, and the diagnosis that each must have."""
