"""Tables in open formats, which Spark writes and other programs read."""
