"""Settings and where they come from: flags, files, Kafka's properties, the broker."""
