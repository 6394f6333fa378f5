"""Simulated groups beside the truth of their simulation."""
