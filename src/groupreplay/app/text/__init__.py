"""The terminal: tables, live view, and events as lines of text."""
