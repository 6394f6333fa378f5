"""Departures of known cause: real members that leave their groups, and what is said about them."""
