"""Everything that is kept of one group between two calls, in parts, and its form as bytes."""
