"""What happened to a group over time, from its records: pure functions for pages and tables."""
