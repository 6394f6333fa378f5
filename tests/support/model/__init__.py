"""Clients of the coordinator model, random histories of it, and scripts that run on the model and on a broker."""
