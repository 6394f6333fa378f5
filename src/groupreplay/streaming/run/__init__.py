"""The long-running process around the query: start, supervision, heartbeats, status."""
