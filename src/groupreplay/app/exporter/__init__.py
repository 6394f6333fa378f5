"""Metrics for Prometheus over HTTP, from the job's topics."""
