"""Parts of the capture format: where files are, their columns, their context, and the order of their records."""
