"""Consumer groups (KIP-848): their members, assignments and requests."""
