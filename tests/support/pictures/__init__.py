"""Documents and pages of what happened to groups, for tests."""
