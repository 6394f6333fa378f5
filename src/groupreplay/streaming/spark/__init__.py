"""The Spark query: sources, operator, sink, session and checkpoint."""
