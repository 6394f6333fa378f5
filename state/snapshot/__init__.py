"""What is remembered of one group between two calls, and the records it is built from."""
