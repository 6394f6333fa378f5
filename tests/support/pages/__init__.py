"""Pages of the docs whose commands are run as they stand there."""
