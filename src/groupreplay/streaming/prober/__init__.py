"""The prober: asks the brokers which classic groups are rebalancing, and records the answers."""
