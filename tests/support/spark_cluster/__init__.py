"""A standalone cluster of Spark, and the job on it."""
