"""Simulated groups as capture files or as topics of a live cluster."""
