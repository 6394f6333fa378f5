"""Conditions about a rebalance that is in progress or that happens too often."""
