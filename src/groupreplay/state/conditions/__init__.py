"""Conditions, each in a module of its own: ``<first word>/<second word>.py``; the tracker that reports them."""
