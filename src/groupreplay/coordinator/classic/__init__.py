"""Classic groups: their members, phases and requests."""
