"""Clients of the coordinator model, and scripts that run on the model and on a broker."""
