"""What earlier commits have stored: states, layouts, conditions, whole checkpoints."""
