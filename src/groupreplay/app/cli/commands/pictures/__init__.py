"""Commands that make documents and pages of what happened to a group over time."""
