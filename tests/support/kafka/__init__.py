"""Real brokers, clients and Kafka's own classes."""
